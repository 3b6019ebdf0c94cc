// The app that was built, on a free port.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** @returns its address, and how to end it */
export async function startApp(ownEnv) {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))

  const env = { ...process.env, ...ownEnv }
  const app = spawn('next', ['start', '--port', String(port), '--hostname', '127.0.0.1'], { env, stdio: 'inherit' })
  const url = `http://127.0.0.1:${port}`
  const isUp = () =>
    fetch(url).then(
      () => true,
      () => false,
    )
  while (app.exitCode === null && !(await isUp())) await sleep(100)
  const stop = async () => {
    app.kill()
    await once(app, 'exit')
  }
  return { url, stop }
}

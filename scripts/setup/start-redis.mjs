// A Redis for a script here, which ends with it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** @param dir  where it may write; nothing is saved @returns it once it can be connected to, and its address */
export async function startRedis(dir = '.') {
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir]
  const child = spawn('redis-server', args, { stdio: 'ignore' })
  process.on('exit', () => child.kill())
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  while (!(await listens(port))) {
    if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`)
    await sleep(20)
  }
  return { child, url: `redis://127.0.0.1:${port}` }
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function listens(port) {
  const socket = connect(port, '127.0.0.1')
  const isOpen = await new Promise((resolve) =>
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false)),
  )
  socket.destroy()
  return isOpen
}

// Starts the app that was built, and sends two requests for one order: the second while the first is being paid.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const payments = createServer().listen(0, '127.0.0.1')
await once(payments, 'listening')
const probe = createServer().listen(0, '127.0.0.1')
await once(probe, 'listening')
const { port } = probe.address()
await new Promise((resolve) => probe.close(resolve))

const env = { ...process.env, PAYMENTS_URL: `http://127.0.0.1:${payments.address().port}` }
const app = spawn('next', ['start', '--port', String(port), '--hostname', '127.0.0.1'], { env, stdio: 'inherit' })
const pay = (id) => fetch(`http://127.0.0.1:${port}/orders/${id}`, { method: 'POST' })
const isUp = () =>
  fetch(`http://127.0.0.1:${port}/`).then(
    () => true,
    () => false,
  )
while (app.exitCode === null && !(await isUp())) await sleep(100)

const first = pay(1)
const [, reply] = await once(payments, 'request')
assert.equal((await pay(1)).status, 409)
reply.end()
assert.deepEqual(await (await first).json(), { paid: true })

payments.on('request', (_request, reply) => reply.end())
assert.equal((await pay(1)).status, 200)
app.kill()
await once(app, 'exit')
payments.close()

// Starts the app that was built, and sends two requests for one order: the second while the first is being paid.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { startApp } from './app.mjs'

const payments = createServer().listen(0, '127.0.0.1')
await once(payments, 'listening')
const { url, stop } = await startApp({ PAYMENTS_URL: `http://127.0.0.1:${payments.address().port}` })
const pay = (id) => fetch(`${url}/orders/${id}`, { method: 'POST' })

const first = pay(1)
const [, reply] = await once(payments, 'request')
assert.equal((await pay(1)).status, 409)
reply.end()
assert.deepEqual(await (await first).json(), { paid: true })

payments.on('request', (_request, reply) => reply.end())
assert.equal((await pay(1)).status, 200)
await stop()
payments.close()

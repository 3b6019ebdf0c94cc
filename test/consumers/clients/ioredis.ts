import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createConnection, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import * as holdfast from 'holdfast'
import { connect } from 'holdfast'
import { ioredis } from 'holdfast/ioredis'
import { Redis } from 'ioredis'
import { takeALock } from 'take-a-lock'

const url = process.env['REDIS_URL'] ?? ''
/** A round trip to a server that is far away, ms: long enough for calls to begin to wait in each step of a handshake. */
const ROUND_TRIP_MS = 100

async function main(): Promise<void> {
  await takeALock(holdfast) // which opens ioredis itself
  const redis = new Redis(url)
  await takeALock({ ...holdfast, connect: async () => await connect({ client: redis }) })
  await takeALock({ ...holdfast, connect: async () => await connect({ client: ioredis(redis) }) })
  redis.disconnect()
  await waitWhileItConnects()
}

/** Calls begin to wait one after the other, while the connection for wake-ups opens. */
async function waitWhileItConnects(): Promise<void> {
  const far = createServer((client) => {
    const { hostname, port } = new URL(url)
    const server = createConnection(Number(port), hostname)
    client.on('data', (request) => server.write(request))
    server.on('data', (reply) => setTimeout(() => client.write(reply), ROUND_TRIP_MS))
    for (const socket of [client, server]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        server.destroy()
      })
    }
  }).listen(0, '127.0.0.1')
  await once(far, 'listening')
  const redis = new Redis((far.address() as AddressInfo).port, '127.0.0.1')
  const [client, other] = [await connect({ client: redis }), await connect(url)]
  const warnings: unknown[] = []
  client.on('warning', (warning) => warnings.push(warning))
  const names = Array.from({ length: 30 }, (_, n) => `consumer:${process.pid}:wait:${n}`)
  const held = await Promise.all(names.map((name) => other.getReadWriteLock(name).writeLock().lock()))
  const waits = []
  for (const name of names) {
    waits.push(client.getReadWriteLock(name).writeLock().lock())
    await sleep(ROUND_TRIP_MS / 5)
  }
  for (const hold of held) await hold.unlock()
  for (const wait of waits) await (await wait).unlock()
  assert.deepEqual(warnings, [])
  const inboxes = (await redis.call('PUBSUB', 'CHANNELS', `holdfast_inbox:${client.id}`)) as unknown[]
  assert.equal(inboxes.length, 1, 'the client can be asked')
  await client.close()
  await other.close()
  redis.disconnect()
  far.close()
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})

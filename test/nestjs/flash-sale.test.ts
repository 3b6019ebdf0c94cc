import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { expectNothingLeft } from '../support/leak-check.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const STOCK = 30
const BUYERS = 150

let server: RedisServer

before(async () => {
  server = await startRedis()
})

after(async () => {
  await server.stop()
})

/** All buyers buy at once, half of them from each of two server processes. @returns how many have one by their reply */
async function sellOut(path: string): Promise<number> {
  await server.admin.set('stock', STOCK)
  const shops: Child[] = [1, 2].map(() =>
    spawnChild(new URL('shop-process.js', import.meta.url), [], { env: { REDIS_URL: server.url } }),
  )
  try {
    const urls = await Promise.all(shops.map(async (shop) => (await shop.nextMessage<{ url: string }>()).url))
    const buy = async (_: unknown, buyer: number) => {
      const response = await fetch(`${urls[buyer % 2]}${path}`, { method: 'POST', headers: { connection: 'close' } })
      return (await response.json()) as { sold: boolean }
    }
    const replies = await Promise.all(Array.from({ length: BUYERS }, buy))
    for (const shop of shops) shop.send({ command: 'close' })
    for (const shop of shops) shop.endCommands()
    for (const shop of shops) assert.deepEqual(await shop.exit, { code: 0, signal: null })
    return replies.filter(({ sold }) => sold).length
  } finally {
    for (const shop of shops) await shop.stop()
  }
}

it('two instances with @Locked sell the stock, and never more', async () => {
  assert.equal(await sellOut('/buy'), STOCK)
  assert.equal(await server.admin.get('stock'), '0')
  await expectNothingLeft(server, { keys: /^stock$/ })
})

it('two instances without @Locked sell more than the stock: the same load exposes the race', async () => {
  assert.ok((await sellOut('/buy-without-lock')) > STOCK)
})

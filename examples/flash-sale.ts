/** Two shop servers sell the last three items to eight buyers, one at a time. */
import { type Client, connect } from 'holdfast'
import { Redis } from 'ioredis'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const warehouse = new Redis(REDIS_URL)
await warehouse.set('example:stock', 3)

// In production these are two processes that share Redis.
const servers = [await connect(REDIS_URL), await connect(REDIS_URL)]

const purchases = servers.flatMap((server) => Array.from({ length: 4 }, async () => await buy(server)))
const sold = (await Promise.all(purchases)).filter((wasSold) => wasSold).length

console.log(`8 buyers, 3 items: ${sold} sold, ${await warehouse.get('example:stock')} left`)

await warehouse.del('example:stock')
warehouse.disconnect()
for (const server of servers) await server.close()

async function buy(server: Client): Promise<boolean> {
  const lock = server.getLock('lock:example:stock')
  return await lock.withLock({ waitTimeMs: 10_000 }, async (hold) => {
    const stock = Number(await warehouse.get('example:stock'))
    if (stock === 0) return false
    hold.assertHeld() // right before what must not happen twice
    await warehouse.set('example:stock', stock - 1)
    return true
  })
}

// Output:
// 8 buyers, 3 items: 3 sold, 0 left

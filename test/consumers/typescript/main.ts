import { strictEqual } from 'node:assert'
import { Client, connect, getMultiLock, type Hold, LockError, NotHeldError, WaitTimeoutError } from 'holdfast'
import { loadConfig, type RedissonConfig } from 'holdfast/config'
import { ioredis } from 'holdfast/ioredis'
import { nodeRedis } from 'holdfast/node-redis'
import { valkeyGlide } from 'holdfast/valkey-glide'
import { Redis } from 'ioredis'
import { takeALock } from 'take-a-lock'

const config: RedissonConfig = { singleServerConfig: { address: 'redis://127.0.0.1' } }

async function main(): Promise<void> {
  await takeALock({ connect, getMultiLock, LockError, NotHeldError, WaitTimeoutError })
  const redis = new Redis(process.env['REDIS_URL'] ?? '')
  const client: Client = await connect({ client: ioredis(redis) })
  client.on('lost', ({ hold, error }) => console.error(hold.lockName, error.reason))
  strictEqual(client instanceof Client, true)
  const hold: Hold = await client.getLock(`consumer:typescript:${process.pid}`).lock({ leaseTimeMs: 5_000 })
  await hold.unlock()
  await client.close()
  redis.disconnect()
  strictEqual([config, 1].length, 2)
  strictEqual(
    [loadConfig, nodeRedis, valkeyGlide].every((one) => typeof one === 'function'),
    true,
  )
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})

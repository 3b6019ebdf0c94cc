import * as holdfast from 'holdfast'
import { connect } from 'holdfast'
import { nodeRedis } from 'holdfast/node-redis'
import { createClient } from 'redis'
import { takeALock } from 'take-a-lock'

async function main(): Promise<void> {
  const redis = createClient({ url: process.env['REDIS_URL'] ?? '' })
  redis.on('error', (error: unknown) => console.error(error))
  await redis.connect()
  await takeALock({ ...holdfast, connect: async () => await connect({ client: redis }) })
  await takeALock({ ...holdfast, connect: async () => await connect({ client: nodeRedis(redis) }) })
  await redis.disconnect()
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})

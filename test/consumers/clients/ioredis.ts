import * as holdfast from 'holdfast'
import { connect } from 'holdfast'
import { ioredis } from 'holdfast/ioredis'
import { Redis } from 'ioredis'
import { takeALock } from 'take-a-lock'

async function main(): Promise<void> {
  await takeALock(holdfast) // which opens ioredis itself
  const redis = new Redis(process.env['REDIS_URL'] ?? '')
  await takeALock({ ...holdfast, connect: async () => await connect({ client: redis }) })
  await takeALock({ ...holdfast, connect: async () => await connect({ client: ioredis(redis) }) })
  redis.disconnect()
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})

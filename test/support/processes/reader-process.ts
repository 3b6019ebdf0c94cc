import { Redis } from 'ioredis'
import { connect } from '../../../src/index.js'
import { sleep } from '../wait-until.js'
import { onCommand, report } from './child.js'

/**
 * A process whose readers have the read-write lock `a` without a pause, and record in the list `log` when they enter and are
 * about to leave. Arguments: the URL of Redis, how many readers, `fifo` or nothing. Any command ends it.
 */
const [url = '', readers, order] = process.argv.slice(2)
const client = await connect({ url, inspection: false })
const redis = new Redis(url)
const lock = client.getReadWriteLock('a', order === 'fifo' ? { order } : {}).readLock()
let isOver = false

async function read(reader: string): Promise<void> {
  while (!isOver) {
    await lock.withLock(async () => {
      await redis.rpush('log', `${reader} in`)
      await sleep(20)
      await redis.rpush('log', `${reader} out`)
    })
  }
}

const reading = Promise.all(Array.from({ length: Number(readers) }, (_, index) => read(`${process.pid}:${index}`)))
const stop = onCommand(async () => {
  isOver = true
  await reading
  await client.close()
  redis.disconnect()
  stop()
})
report({ at: 'ready' })

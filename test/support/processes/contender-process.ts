import { Redis } from 'ioredis'
import { driverNamed } from '../drivers.js'
import { kindNamed } from '../kinds.js'
import { onCommand, report } from './child.js'

/**
 * A process whose tasks update a counter under the lock `a`. Arguments: the URL of Redis, tasks, sections for each, kind,
 * driver.
 */
const [url = '', tasks, sections, kind = 'lock', through = 'a URL'] = process.argv.slice(2)
const driver = driverNamed(through)
const { client, end } = await driver.open(url, {})
const redis = driver.openRaw?.(url) ?? new Redis(url)
let done = 0

async function task(): Promise<void> {
  for (let section = 0; section < Number(sections); section++) {
    await kindNamed(kind)
      .lock(client, 'a')
      .withLock(async (hold) => {
        if ((await redis.incr('inside')) !== 1) await redis.incr('overlaps')
        const counter = Number(await redis.get('counter'))
        await redis.set('counter', counter + 1)
        await redis.decr('inside')
        hold.assertHeld()
      })
    done++
  }
}

const stop = onCommand(async () => {
  await Promise.all(Array.from({ length: Number(tasks) }, task))
  await client.close()
  await end()
  redis.disconnect()
  report({ at: 'done', sections: done })
  stop()
})
report({ at: 'ready' })

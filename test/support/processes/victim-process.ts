import { type Hold, LeaseLostError } from '../../../src/index.js'
import { driverNamed } from '../drivers.js'
import { kindNamed } from '../kinds.js'
import { report } from './child.js'

/**
 * A process that holds the lock `a` and looks at it in every turn. Arguments: the URL of Redis, its kind, driver, and how
 * often it went from one caller to the next before.
 */
const [url = '', kind = 'lock', driver = 'a URL', passes = '0'] = process.argv.slice(2)
const { client } = await driverNamed(driver).open(url, { lockWatchdogTimeoutMs: 1_500 })
const lock = kindNamed(kind).lock(client, 'a')
const taking = Array.from({ length: Number(passes) + 1 }, () => lock.lock())
for (const earlier of taking.slice(0, -1)) await (await earlier).unlock()
const hold = (await taking.at(-1)) as Hold
client.on('lost', () => report({ at: 'lost' }))
report({ at: 'held', holder: hold.holder })

let turnAt = performance.now()
const watch = setInterval(() => {
  const pausedMs = performance.now() - turnAt
  turnAt = performance.now()
  try {
    hold.assertHeld()
    // Longer than any lease that was left: then the first look must have thrown.
    if (pausedMs > 1_500) report({ at: 'woke', error: 'none', aborted: hold.signal.aborted, pausedMs })
  } catch (error) {
    clearInterval(watch)
    const code = error instanceof LeaseLostError ? error.code : String(error)
    report({ at: 'woke', error: code, aborted: hold.signal.aborted, pausedMs })
  }
}, 1)

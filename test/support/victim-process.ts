import { LeaseLostError } from '../../src/index.js'
import { report } from './child.js'
import { driverNamed } from './drivers.js'
import { kindNamed } from './kinds.js'

/** A process that holds the lock `a` and looks at it in every turn. Arguments: the URL of Redis, its kind, driver. */
const [url = '', kind = 'lock', driver = 'a URL'] = process.argv.slice(2)
const { client } = await driverNamed(driver).open(url, { lockWatchdogTimeoutMs: 1_500 })
const hold = await kindNamed(kind).lock(client, 'a').lock()
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

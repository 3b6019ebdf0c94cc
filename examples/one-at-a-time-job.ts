/** Three workers start the nightly report. One runs it, the others skip it. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const clients = [await connect(REDIS_URL), await connect(REDIS_URL), await connect(REDIS_URL)]

const outcomes = await Promise.all(
  clients.map(async (client) => {
    const lock = client.getLock('lock:example:nightly-report')
    const { ran } = await lock.tryWithLock({ maxHoldMs: 60_000 }, async (hold) => await report(hold.signal))
    return ran ? 'ran the report' : 'skipped: another worker is running it'
  }),
)
for (const outcome of outcomes.sort()) console.log(outcome)

for (const client of clients) await client.close()

/** Stops when the lock is lost, or after a minute: then another worker may be running. */
async function report(signal: AbortSignal): Promise<void> {
  await pause(200, undefined, { signal })
}

// Output:
// ran the report
// skipped: another worker is running it
// skipped: another worker is running it

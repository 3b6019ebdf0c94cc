/** Cron starts the nightly report on three hosts. One runs it, the others skip it: even the one whose clock is late. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const clients = [await connect(REDIS_URL), await connect(REDIS_URL), await connect(REDIS_URL)]
const LATE_MS = [0, 0, 400]

const outcomes = await Promise.all(
  clients.map(async (client, host) => {
    await pause(LATE_MS[host])
    const lock = client.getLock('lock:example:nightly-report')
    const { ran, value } = await lock.tryWithLock({ atLeastMs: 60_000 }, async (hold) => await report(hold.signal))
    return ran ? value : 'skipped: another host has run the report, or is running it'
  }),
)
for (const outcome of outcomes.sort()) console.log(outcome)

// The lock stays taken for a minute from its start. Here the next run of the example should not have to wait.
await clients[0]?.getLock('lock:example:nightly-report').forceUnlock()
for (const client of clients) await client.close()

/** Stops when the lock is lost. */
async function report(signal: AbortSignal): Promise<string> {
  await pause(100, undefined, { signal })
  return 'ran the report'
}

// Output:
// ran the report
// skipped: another host has run the report, or is running it
// skipped: another host has run the report, or is running it

import { connect, type LeaseLostError } from '../../../src/index.js'
import { block } from '../block.js'
import { kindNamed, kinds } from '../kinds.js'
import { onCommand, report } from './child.js'

/**
 * A process that holds a lock of each kind, by the name of the kind, and the permit of `permit`. It blocks its event loop for
 * `blockMs`, says what its holds are in that turn, and keeps them until the command `release`. Arguments: the URL of Redis, a
 * lease, and for how long the thread renews, ms.
 */
const [url = '', leaseMs, maxBlockMs] = process.argv.slice(2)
const client = await connect({
  url,
  lockWatchdogTimeoutMs: Number(leaseMs),
  watchdog: { thread: true, maxBlockMs: Number(maxBlockMs) },
})
const semaphore = client.getPermitExpirableSemaphore('permit')
await semaphore.setPermits(1)
const holds = await Promise.all([
  ...kinds.map(({ name }) => kindNamed(name).lock(client, name).lock()),
  semaphore.acquire(),
])
for (const hold of holds) void hold.signal
const lost: string[] = []
client.on('lost', ({ hold }) => lost.push(hold.lockName))

const stop = onCommand<{ blockMs: number } | { release: true }>(async (command) => {
  if ('blockMs' in command) await blockAndReport(command.blockMs)
  else await release()
})
report({ at: 'held' })

async function blockAndReport(ms: number): Promise<void> {
  report({ at: 'blocking' })
  // What is written is on its way only when the turn is over.
  await new Promise((resolve) => setTimeout(resolve, 50))
  block(ms)
  const problems = holds.map((hold) => {
    try {
      hold.assertHeld()
      return hold.signal.aborted ? 'aborted' : 'held'
    } catch (error) {
      return (error as LeaseLostError).reason
    }
  })
  report({ at: 'woke', problems, remainingMs: holds.map((hold) => hold.remainingMs()) })
}

async function release(): Promise<void> {
  const released = await Promise.allSettled(holds.map((hold) => hold.unlock()))
  report({ at: 'released', refused: released.filter(({ status }) => status === 'rejected').length, lost: lost.length })
  await client.close()
  stop()
}

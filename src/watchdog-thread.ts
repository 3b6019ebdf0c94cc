// Entry of the thread that renews while the event loop is blocked.
/*
 * The watchdog thread, `holdfast/watchdog-thread`: it renews the leases of the clients of this process while their event loop
 * is blocked. See `ThreadClient`.
 */
import { parentPort } from 'node:worker_threads'
import type { RedisPort } from './adapters/port.js'
import type { RedissonConfig } from './config/schema.js'
import { threadClock } from './util/clock.js'
import { systemRandom } from './util/random.js'
import { type SentToThread, SetClock } from './watchdog/thread-protocol.js'
import { ThreadRenewals } from './watchdog/thread-renewals.js'

async function open(connection: string | object): Promise<RedisPort> {
  const { openDeployment, openUrl } = await import('./config/open.js')
  if (typeof connection === 'string') return await openUrl(connection)
  const { describe } = await import('./config/deployment.js')
  const deployment = describe(connection as RedissonConfig)
  const port = await openDeployment(deployment)
  // Without this it would connect with the first renewal, which may be too late.
  if (deployment.isLazy) void port.send(['PING'], '').catch(() => {})
  return port
}

const post = (message: unknown): void => parentPort?.postMessage(message)
const clock = new SetClock(threadClock.now)
const renewals = new ThreadRenewals({ clock: { ...threadClock, now: clock.now }, random: systemRandom, open, post })
parentPort?.on('message', (message: SentToThread) => {
  clock.received(message.sentAt)
  renewals.receive(message)
})

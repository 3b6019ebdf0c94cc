/**
 * A process that takes part in the election `leader`. Arguments: the URL of Redis, the lease, ms, and `heeds` or `asks`: whether
 * a leader heeds its deadline or, as the control, asks Redis whether it still leads and believes so until it gets a reply.
 */
import { Redis } from 'ioredis'
import { connect, type Hold } from '../../../src/index.js'
import { monotonicMs } from '../../harness/beliefs.js'
import { sleep } from '../wait-until.js'
import { report } from './child.js'

/** How often a leader looks at its deadline, and how often it reports it, ms. */
const [LOOKS_MS, REPORTS_MS] = [2, 40]

const [url = '', leaseMs, mode] = process.argv.slice(2)
const redis = mode === 'asks' ? new Redis(url, { maxRetriesPerRequest: null }) : undefined
redis?.on('error', () => {})
const client = await connect({ url, lockWatchdogTimeoutMs: Number(leaseMs), commandTimeoutMs: 500 })
client.closeOnSignals()
client.elect('leader', {
  onElected: async (signal, hold) => {
    const token = String(hold.fencingToken)
    report({ at: 'elected', token, from: monotonicMs() })
    if (redis) await leadUntilRedisDenies(redis, hold, token)
    else await leadUntilDeadline(signal, hold, token)
  },
  onLost: ({ reason }) => report({ at: 'lost', reason }),
})
report({ at: 'ready' })

async function leadUntilDeadline(signal: AbortSignal, hold: Hold, token: string): Promise<void> {
  let reportedAt = Number.NEGATIVE_INFINITY
  for (;;) {
    const at = monotonicMs()
    const to = at + hold.remainingMs()
    if (to === at) return // lost: the last deadline stands
    if (signal.aborted) return report({ at: 'resigned', token, to: at })
    if (at > reportedAt + REPORTS_MS) {
      reportedAt = at
      report({ at: 'leads', token, to })
    }
    await sleep(LOOKS_MS)
  }
}

async function leadUntilRedisDenies(asked: Redis, hold: Hold, token: string): Promise<void> {
  while ((await asked.hexists('leader', hold.holder)) === 1) {
    report({ at: 'leads', token, to: monotonicMs() })
    await sleep(REPORTS_MS)
  }
  report({ at: 'leads', token, to: monotonicMs() })
}

import { connect } from '../../src/index.js'
import { onCommand, report } from '../support/child.js'
import { WATCHDOG_MS } from './bench.js'
import { type Each, kindOf } from './kinds.js'
import { NodeLock } from './node-lock.js'

/** A process that takes locks, and holds them until it is killed. Arguments: the URLs of the Redis servers. */
const clients = await Promise.all(
  process.argv.slice(2).map((url) => connect({ url, lockWatchdogTimeoutMs: WATCHDOG_MS })),
)
onCommand<{ kind: string; name: string }>(({ kind, name }) => {
  const lock = new NodeLock(kindOf(kind), clients as unknown as Each<(typeof clients)[number]>, name)
  void lock.lock().then(() => report({ held: name }))
})
report({ at: 'ready' })

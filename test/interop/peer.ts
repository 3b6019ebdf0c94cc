import { connect } from '../../src/index.js'
import { onCommand, report } from '../support/processes/child.js'
import type { Target } from './backend.js'
import { type Each, kindOf } from './kinds.js'
import { NodeLock } from './node-lock.js'
import { PERMITS } from './semaphores.js'

/** A process that takes locks and permits, and holds them until it is killed. Arguments: the targets, as JSON. */
const clients = await Promise.all(process.argv.slice(2).map((target) => connect(JSON.parse(target) as Target)))
onCommand<{ kind: string; name: string }>(({ kind, name }) => {
  const taken =
    kind === PERMITS
      ? clients[0]?.getPermitExpirableSemaphore(name).acquire()
      : new NodeLock(kindOf(kind), clients as unknown as Each<(typeof clients)[number]>, name).lock()
  void taken?.then(() => report({ held: name }))
})
report({ at: 'ready' })

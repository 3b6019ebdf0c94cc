// Takes and releases locks of every kind.
import { messageOf, NotReplicatedError } from '../../errors.js'
import { within } from '../../util/timeout.js'
import { lockChannel } from '../../wire/keys.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isBefore, isDenied, type Server } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'
import { ms } from './connection.js'
import { ACL_FIX } from './rights.js'

/** TTL of everything that the doctor writes, ms: it expires even if the doctor is killed. */
export const TRIAL_TTL_MS = 10_000
const MESSAGE_MS = 2_000
const MESSAGES = 5

export const lockChecks: readonly Check[] = [
  {
    id: 'trial-lock',
    group: 'Locks',
    title: 'Trial lock',
    why: 'If a lock with a random name cannot be acquired, checked and released, no lock works.',
    isOnce: true,
    async run(server, deployment) {
      if (deployment.role === 'viewer') return undefined
      if (await server.isReplica().catch(() => false)) return undefined
      const lock = deployment.client.getLock(deployment.trialName)
      const startedAt = performance.now()
      try {
        const hold = await lock.tryLock({ leaseTimeMs: TRIAL_TTL_MS })
        if (!hold) return problem('not granted, though its name is new', 'check who writes and deletes keys there')
        const took = performance.now() - startedAt
        if (!(await hold.isHeld()))
          return problem('acquired, but gone immediately after', 'check what deletes keys: eviction, a proxy')
        await hold.unlock()
        if (deployment.warnings.length > 0) return note(`acquired in ${ms(took)}; ${deployment.warnings.join('; ')}`)
        return ok(`acquired in ${ms(took)}, and released`)
      } catch (error) {
        return problem(messageOf(error), fixFor(error))
      }
    },
  },
  {
    id: 'pubsub',
    group: 'Locks',
    title: 'Messages',
    why: 'Waiters are woken by a message. Without it they poll, and acquire the lock later.',
    isOnce: true,
    async run(_server, deployment) {
      if (deployment.role === 'viewer') return undefined
      const server = deployment.ownerOf(deployment.trialName)
      if (await server.isReplica().catch(() => false)) return undefined
      const channel = lockChannel(deployment.trialName)
      const plain = await latencyOf(server, channel, ['publish', 'subscribe', 'message'], deployment)
      if (typeof plain !== 'number') return plain
      if (!deployment.isCluster) return ok(`arrive in ${ms(plain)}`)
      const { compatible } = await server.version()
      if (isBefore(compatible, 7)) return ok(`arrive in ${ms(plain)} on plain channels; sharded ones need Redis 7`)
      const sharded = await latencyOf(server, channel, ['spublish', 'ssubscribe', 'smessage'], deployment)
      if (typeof sharded !== 'number') return sharded
      return ok(`arrive in ${ms(plain)} on plain channels, and in ${ms(sharded)} on sharded ones`)
    },
  },
]

/** How to fix each error of the trial lock. */
const FIXES: readonly [error: RegExp, fix: string][] = [
  [/\bNOPERM\b/, ACL_FIX],
  [/\bOOM\b/, 'raise maxmemory with CONFIG SET, or store fewer keys (see memory)'],
  [/\bMISCONF\b/, 'check the disk of Redis (see persistence)'],
  [/\bNOREPLICAS\b/, 'bring the replicas back, or lower min-replicas-to-write with CONFIG SET (see min-replicas)'],
  [/\bREADONLY\b/, 'connect to the master (see role)'],
  [/\b(MOVED|CROSSSLOT)\b/, 'use a configuration with clusterServersConfig (see role)'],
  [/\bCLUSTERDOWN\b/, 'redis-cli --cluster check (see cluster-state)'],
  [
    /bad lua script/,
    'a proxy refuses the script: switch its check of scripts off (Alibaba Cloud: script_check_enable 0), or connect to the ' +
      'nodes with clusterServersConfig',
  ],
]

function fixFor(error: unknown): string {
  if (error instanceof NotReplicatedError) return 'check that the replicas are connected and not lagging (see wait)'
  const known = FIXES.find(([pattern]) => pattern.test(messageOf(error)))
  return known?.[1] ?? 'check that Redis replies to EVALSHA and EVAL'
}

/** The time that messages from a script take on one kind of channel, or what is wrong. */
async function latencyOf(
  server: Server,
  channel: string,
  [publish, subscribe, event]: [publish: string, subscribe: 'subscribe' | 'ssubscribe', event: string],
  { trialName }: DeploymentUnderTest,
) {
  const effect = 'Waiters poll every 250 ms'
  const subscriber = server.redis.duplicate({ lazyConnect: true, retryStrategy: () => null, disconnectTimeout: 100 })
  subscriber.on('error', () => {})
  const received = new Map<string, () => void>()
  subscriber.on(event, (_channel: string, message: string) => received.get(message)?.())
  try {
    try {
      await within(MESSAGE_MS, subscriber.connect())
      await within(MESSAGE_MS, subscriber[subscribe](channel))
    } catch (error) {
      return warning(
        `${subscribe.toUpperCase()} fails: ${messageOf(error)}. ${effect}`,
        isDenied(error) ? ACL_FIX : 'connect to Redis directly, not through a proxy',
      )
    }
    const times: number[] = []
    for (let number = 0; number < MESSAGES; number++) {
      const text = `doctor ${number}`
      const arrival = new Promise<void>((resolve) => received.set(text, resolve))
      const startedAt = performance.now()
      const script = `return redis.pcall('${publish}', ARGV[1], ARGV[2])`
      try {
        await server.command('EVAL', script, '1', trialName, channel, text)
      } catch (error) {
        if (!/NOPERM|can't|No permissions/i.test(messageOf(error))) throw error
        return warning(`${publish.toUpperCase()} is denied to scripts: ${messageOf(error)}. ${effect}`, ACL_FIX)
      }
      try {
        await within(MESSAGE_MS, arrival)
      } catch {
        return warning(
          `published, but not received within ${MESSAGE_MS} ms. ${effect}`,
          'connect to Redis directly, not through a proxy that shares connections',
        )
      }
      times.push(performance.now() - startedAt)
    }
    return times.sort((one, other) => one - other)[MESSAGES >> 1] ?? 0
  } finally {
    subscriber.disconnect()
  }
}

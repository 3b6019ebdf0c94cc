// Checks the connection: latency, TLS, subscriptions.
import { otherTags, WHO_RUNS_THIS } from '../../delivery/placement.js'
import { sleep } from '../../util/sleep.js'
import { turnQueueKey } from '../../wire/keys.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isReply, type Server } from '../server.js'

const PINGS = 7
const SLOW_MS = 50
const STEP_MS = 500
const SKEW_MS = 1_000
/** The client's defaults, ms. */
const LEASE_MS = 30_000
const COMMAND_TIMEOUT_MS = 3_000

export const REACHABLE = {
  id: 'reachable',
  group: 'Connection',
  title: 'Reachable',
  why: 'Acquiring and releasing a lock cost one round trip each, and every lease is renewed after a third of it.',
} as const

export const connectionChecks: readonly Check[] = [
  {
    ...REACHABLE,
    async run(server) {
      const times: number[] = []
      for (let ping = 0; ping < PINGS; ping++) {
        const startedAt = performance.now()
        try {
          await server.command('EVAL', 'return 1', '0') // every user of locks may do this
        } catch (error) {
          if (isReply(error)) throw error
          return problem(
            `${server.address}: ${(error as Error).message}`,
            'check what keeps Redis busy, and the network to it',
          )
        }
        times.push(performance.now() - startedAt)
      }
      times.sort((one, other) => one - other)
      const [least = 0, median = 0] = [times[0], times[PINGS >> 1]]
      const message = `${server.address} replies in ${ms(median)} (fastest: ${ms(least)})`
      return median < SLOW_MS
        ? ok(message)
        : warning(message, 'run the program near Redis; check what keeps Redis busy')
    },
  },
  {
    id: 'shards',
    group: 'Connection',
    title: 'Shards',
    why:
      'A proxy that shards by key, without the slots of a cluster, sends a command to the shard of its first key. Locks of ' +
      'several names cannot be taken in one command there.',
    isOnce: true,
    async run(server, { isCluster, trialName }) {
      if (isCluster) return undefined
      const serverOf = (key: string): Promise<string> => server.textOf('EVAL', WHO_RUNS_THIS, '1', key)
      const keys = otherTags(trialName)
      const servers = await Promise.all(keys.map(serverOf))
      const beside = await Promise.all(keys.map((key) => serverOf(turnQueueKey(key))))
      if (servers.includes('')) {
        const message = 'Redis does not tell scripts which server runs them, so each lock is sent in its own command'
        return note(message, 'allow INFO: ACL SETUSER <user> +info')
      }
      const count = new Set(servers).size
      if (count === 1) return ok('one server has all keys')
      if (beside.some((one, index) => one !== servers[index])) {
        return problem(
          `a proxy in front of ${count} servers that ignores hash tags: the keys of one lock are on different servers`,
          'set the hash tag of the proxy to {} (twemproxy: hash_tag: "{}"), or connect to one server or a cluster',
        )
      }
      return warning(
        `a proxy in front of ${count} servers: each lock is sent in its own command, multi-locks take theirs one by one`,
        'connect to one server, or to a Redis Cluster with clusterServersConfig',
      )
    },
  },
  {
    id: 'encrypted',
    group: 'Connection',
    title: 'TLS',
    why: 'Without TLS, the password and everything else can be read on the network.',
    run(server, { isTls }) {
      if (isTls) return ok('encrypted')
      if (server.isLoopback) return ok('unencrypted, on this machine')
      return note(
        'unencrypted, over the network',
        'use rediss:// in the URL or the addresses, unless you trust the network',
      )
    },
  },
  {
    id: 'settings',
    group: 'Connection',
    title: 'Configuration',
    why: 'Some settings of a Redisson file have no effect here, and some decide what a lock guarantees.',
    isOnce: true,
    run(_server, { deployment, isAcknowledged }) {
      if (!deployment) return undefined
      const { lockWatchdogTimeoutMs = LEASE_MS, commandTimeoutMs = COMMAND_TIMEOUT_MS } = deployment.options
      if (commandTimeoutMs > lockWatchdogTimeoutMs / 3) {
        return warning(
          `timeout is ${commandTimeoutMs} ms, but renewals are ${Math.round(lockWatchdogTimeoutMs / 3)} ms apart: ` +
            'a few lost replies cost the lock',
          `set timeout: ${Math.floor(lockWatchdogTimeoutMs / 10)}, or a longer lockWatchdogTimeout`,
        )
      }
      if ((deployment.mode === 'sentinel' || deployment.mode === 'cluster') && !isAcknowledged) {
        return warning(
          'checkLockSyncedSlaves is false: after a failover, a second holder may acquire the lock',
          'set checkLockSyncedSlaves: true',
        )
      }
      if (deployment.ignored.length === 0) return ok('every setting is used')
      const ignored = deployment.ignored.map(({ path, reason }) => `${path} (${reason})`)
      return note(`ignored: ${ignored.join(', ')}`)
    },
  },
  {
    id: 'clock',
    group: 'Connection',
    title: 'Clocks',
    why:
      'A step of the clock of Redis ends leases early or late. A difference from this machine does not affect Holdfast, ' +
      'but Redisson writes the clock of its own machine into fair locks, permits and values of a group.',
    async run(server) {
      const { skewMs, stepMs } = await clockOf(server)
      if (Math.abs(stepMs) > STEP_MS) {
        return warning(
          `the clock of Redis stepped by ${ms(stepMs)} during this check`,
          'let NTP slew the clock of that machine, not step it (chrony: makestep only at startup)',
        )
      }
      const message = `Redis and this machine differ by ${ms(Math.abs(skewMs))}`
      return Math.abs(skewMs) < SKEW_MS ? ok(message) : note(message, 'run NTP on both machines')
    },
  },
  {
    id: 'idle-timeout',
    group: 'Connection',
    title: 'Idle connections',
    why: 'Redis closes connections that are idle for longer. Each costs a reconnect and a new query for every held lock.',
    async run(server) {
      const seconds = Number(await server.setting('timeout'))
      if (!(seconds > 0)) return ok('never closed')
      const message = `closed after ${seconds} s without a command`
      return seconds < 60 ? warning(message, 'CONFIG SET timeout 0') : note(message, 'CONFIG SET timeout 0')
    },
  },
  {
    id: 'keepalive',
    group: 'Connection',
    title: 'TCP keep-alive',
    why: 'Firewalls and load balancers drop silent connections, such as those that wait for messages.',
    async run(server) {
      const seconds = Number(await server.setting('tcp-keepalive'))
      if (seconds > 0 && seconds <= 300) return ok(`every ${seconds} s`)
      return warning(seconds > 0 ? `only every ${seconds} s` : 'off', 'CONFIG SET tcp-keepalive 60')
    },
  },
  {
    id: 'clients',
    group: 'Connection',
    title: 'Connections',
    why: 'Beyond maxclients no client can connect, neither to acquire locks nor to renew them after a disconnect.',
    async run(server) {
      const connected = await server.infoNumber('connected_clients')
      const limit = await server.infoNumber('maxclients')
      const most = Number.isNaN(limit) ? Number(await server.setting('maxclients')) : limit
      const message = `${connected} of ${most}`
      const fix = 'raise maxclients with CONFIG SET (and ulimit -n), or use fewer connections'
      if (connected > most * 0.95) return problem(message, fix)
      return connected > most * 0.8 ? warning(message, fix) : ok(message)
    },
  },
]

/** How far the clock of Redis is ahead of ours, and how far it has stepped between two readings. */
async function clockOf(server: Server): Promise<{ skewMs: number; stepMs: number }> {
  const first = await timeOf(server)
  await sleep(200)
  const last = await timeOf(server)
  return { skewMs: last.skewMs, stepMs: last.redisMs - first.redisMs - (last.at - first.at) }
}

async function timeOf(server: Server): Promise<{ redisMs: number; at: number; skewMs: number }> {
  const before = performance.now()
  const wall = Date.now()
  const [seconds, micros] = (await server.command('TIME')) as [string, string]
  const after = performance.now()
  const redisMs = Number(seconds) * 1_000 + Number(micros) / 1_000
  return { redisMs, at: (before + after) / 2, skewMs: redisMs - (wall + (after - before) / 2) }
}

export function ms(duration: number): string {
  return `${Math.abs(duration) < 10 ? duration.toFixed(1) : Math.round(duration)} ms`
}

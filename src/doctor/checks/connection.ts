import { sleep } from '../../util/sleep.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isReply, type Server } from '../server.js'

const PINGS = 7
const SLOW_MS = 50
const STEP_MS = 500
const SKEW_MS = 1_000
/** Leases and time-outs of our own when nothing else is said, ms. */
const LEASE_MS = 30_000
const COMMAND_TIMEOUT_MS = 3_000

export const REACHABLE = {
  id: 'reachable',
  group: 'Connection',
  title: 'Reachable',
  why: 'Taking a lock and releasing it costs one round trip each, and a lease is renewed every third of it.',
} as const

export const connectionChecks: readonly Check[] = [
  {
    ...REACHABLE,
    async run(server) {
      const times: number[] = []
      for (let ping = 0; ping < PINGS; ping++) {
        const startedAt = performance.now()
        try {
          await server.ask('EVAL', 'return 1', '0') // whoever takes locks may do that
        } catch (error) {
          if (isReply(error)) throw error
          return problem(
            `${server.address}: ${(error as Error).message}`,
            'see what keeps Redis busy, and the network to it',
          )
        }
        times.push(performance.now() - startedAt)
      }
      times.sort((one, other) => one - other)
      const [least = 0, median = 0] = [times[0], times[PINGS >> 1]]
      const found = `${server.address} answers in ${ms(median)} (at best ${ms(least)})`
      return median < SLOW_MS ? ok(found) : warning(found, 'run the program near Redis, and see what keeps Redis busy')
    },
  },
  {
    id: 'encrypted',
    group: 'Connection',
    title: 'TLS',
    why: 'Without TLS the password and all that is sent can be read on the way.',
    run(server, { isTls }) {
      if (isTls) return ok('encrypted')
      if (server.isLoopback) return ok('plain, on this machine')
      return note('plain, over the network', 'rediss:// in the URL or the addresses, if that network is not your own')
    },
  },
  {
    id: 'settings',
    group: 'Connection',
    title: 'Configuration',
    why: 'A file of Redisson has settings that mean nothing here, and some that decide what a lock promises.',
    isOnce: true,
    run(_server, { deployment, isAcknowledged }) {
      if (!deployment) return undefined
      const { lockWatchdogTimeoutMs = LEASE_MS, commandTimeoutMs = COMMAND_TIMEOUT_MS } = deployment.options
      if (commandTimeoutMs > lockWatchdogTimeoutMs / 3) {
        return warning(
          `timeout is ${commandTimeoutMs} ms, and renewals are ${Math.round(lockWatchdogTimeoutMs / 3)} ms apart: ` +
            'few unanswered commands cost the lock',
          `timeout: ${Math.floor(lockWatchdogTimeoutMs / 10)}, or a longer lockWatchdogTimeout`,
        )
      }
      if ((deployment.mode === 'sentinel' || deployment.mode === 'cluster') && !isAcknowledged) {
        return warning(
          'checkLockSyncedSlaves is false: a failover may let in a second holder',
          'checkLockSyncedSlaves: true',
        )
      }
      if (deployment.ignored.length === 0) return ok('all of it is used')
      const ignored = deployment.ignored.map(({ path, reason }) => `${path} (${reason})`)
      return note(`these mean nothing here: ${ignored.join(', ')}`)
    },
  },
  {
    id: 'clock',
    group: 'Connection',
    title: 'Clocks',
    why:
      'Holdfast measures leases by the clock of Redis and its own monotonic clock, so a difference does no harm. ' +
      'Redisson, in Java, writes the clock of its machine into fair locks, permits and values of a group. ' +
      'A step of the clock of Redis ends leases early or late.',
    async run(server) {
      const { skewMs, stepMs } = await clockOf(server)
      if (Math.abs(stepMs) > STEP_MS) {
        return warning(
          `the clock of Redis stepped by ${ms(stepMs)} while we looked`,
          'let NTP slew the clock of that machine, not step it (chrony: makestep only at the start)',
        )
      }
      const found = `Redis and this machine differ by ${ms(Math.abs(skewMs))}`
      return Math.abs(skewMs) < SKEW_MS ? ok(found) : note(found, 'NTP on both machines')
    },
  },
  {
    id: 'idle-timeout',
    group: 'Connection',
    title: 'Idle connections',
    why: 'Each connection that is closed costs a reconnect, and all that is held is asked about again.',
    async run(server) {
      const seconds = Number(await server.setting('timeout'))
      if (!(seconds > 0)) return ok('never closed')
      const found = `closed after ${seconds} s without a command`
      return seconds < 60 ? warning(found, 'CONFIG SET timeout 0') : note(found, 'CONFIG SET timeout 0')
    },
  },
  {
    id: 'keepalive',
    group: 'Connection',
    title: 'TCP keep-alive',
    why: 'Firewalls and load balancers forget connections that are silent, such as those that wait for messages.',
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
    why: 'Beyond maxclients nobody can connect: not who takes locks, and not who reconnects to renew them.',
    async run(server) {
      const connected = await server.counted('connected_clients')
      const limit = await server.counted('maxclients')
      const most = Number.isNaN(limit) ? Number(await server.setting('maxclients')) : limit
      const found = `${connected} of at most ${most}`
      const fix = 'CONFIG SET maxclients with a higher number (and ulimit -n), or fewer connections'
      if (connected > most * 0.95) return problem(found, fix)
      return connected > most * 0.8 ? warning(found, fix) : ok(found)
    },
  },
]

/** How far the clock of Redis is ahead of ours, and by how much it ran other than time does. */
async function clockOf(server: Server): Promise<{ skewMs: number; stepMs: number }> {
  const first = await timeOf(server)
  await sleep(200)
  const last = await timeOf(server)
  return { skewMs: last.skewMs, stepMs: last.redisMs - first.redisMs - (last.at - first.at) }
}

async function timeOf(server: Server): Promise<{ redisMs: number; at: number; skewMs: number }> {
  const before = performance.now()
  const wall = Date.now()
  const [seconds, micros] = (await server.ask('TIME')) as [string, string]
  const after = performance.now()
  const redisMs = Number(seconds) * 1_000 + Number(micros) / 1_000
  return { redisMs, at: (before + after) / 2, skewMs: redisMs - (wall + (after - before) / 2) }
}

export function ms(duration: number): string {
  return `${Math.abs(duration) < 10 ? duration.toFixed(1) : Math.round(duration)} ms`
}

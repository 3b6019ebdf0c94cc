// Checks the version and product of the server.
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { productOf } from '../products.js'
import { isBefore } from '../server.js'

/** How long one command may block all others, µs. */
const SLOW_COMMAND_US = 100_000
const VERY_SLOW_COMMAND_US = 1_000_000
const SLOW_FORK_US = 500_000
const MIN_PUBSUB_BUFFER = 1024 * 1024

export const serverChecks: readonly Check[] = [
  {
    id: 'version',
    group: 'Server',
    title: 'Version',
    why: 'The scripts need commands of newer versions, and newer versions have ACLs and channels that help locks.',
    async run(server) {
      const { product, text, compatible } = await server.version()
      const name = `${product} ${text}`
      if (text === '') return note('not reported by the server')
      const fix = 'upgrade to Redis 7.2, Valkey 8, or later'
      if (isBefore(compatible, 5)) return problem(`${name}: scripts that read the time may not write`, fix)
      if (isBefore(compatible, 6, 0, 6)) return problem(`${name}: fair locks need LPOS, new in 6.0.6`, fix)
      if (isBefore(compatible, 6, 2)) return note(`${name}: ACLs cannot limit channels`, fix)
      if (isBefore(compatible, 7))
        return note(`${name}: no sharded channels, so in a cluster messages go to all nodes`, fix)
      return ok(name)
    },
  },
  {
    id: 'product',
    group: 'Server',
    title: 'Product',
    why: 'Servers that are compatible with Redis may handle some commands differently.',
    run: async (server) => productOf(await server.info()).finding,
  },
  {
    id: 'script-limit',
    group: 'Server',
    title: 'Slow scripts',
    why: 'While any script runs longer than this, Redis replies BUSY to all clients: no lock is acquired or renewed.',
    async run(server) {
      const modern = await server.setting('busy-reply-threshold') // before Redis 7, only the older name exists
      const limit = Number(modern ?? (await server.setting('lua-time-limit')))
      if (Number.isNaN(limit)) return note('not reported by the server')
      const fix = `CONFIG SET ${modern === undefined ? 'lua-time-limit' : 'busy-reply-threshold'} 5000`
      if (limit === 0) return note('no limit: a long script blocks all clients', fix)
      const message = `BUSY after ${limit} ms`
      return limit < 1_000 ? warning(message, fix) : ok(message)
    },
  },
  {
    id: 'slow-commands',
    group: 'Server',
    title: 'Slow commands',
    why: 'Redis runs one command at a time. During a slow one, no lease is renewed.',
    async run(server) {
      const entries = (await server.command('SLOWLOG', 'GET', '128')) as [number, number, number, string[]][]
      const [slowest] = entries.sort((one, other) => Number(other[2]) - Number(one[2]))
      const micros = slowest ? Number(slowest[2]) : 0
      const fix = 'find them with SLOWLOG GET 128 and split them, or use a separate Redis for locks'
      if (micros >= SLOW_COMMAND_US) {
        // Not its arguments, which may be secrets.
        const message = `${slowest?.[3]?.[0]?.toUpperCase() ?? 'a command'} took ${Math.round(micros / 1_000)} ms`
        return micros >= VERY_SLOW_COMMAND_US ? warning(message, fix) : note(message, fix)
      }
      const forkMicros = await server.infoNumber('latest_fork_usec')
      if (forkMicros >= SLOW_FORK_US) {
        const fix = 'disable transparent huge pages on that machine, and save less often'
        return note(`the last fork for a snapshot blocked Redis for ${Math.round(forkMicros / 1_000)} ms`, fix)
      }
      return ok('none of the last 128 in SLOWLOG took 100 ms')
    },
  },
  {
    id: 'output-buffer',
    group: 'Server',
    title: 'Subscriber buffers',
    why: 'A subscriber that reads too slowly is disconnected at this limit, and misses messages until it is back.',
    async run(server) {
      const limits = (await server.setting('client-output-buffer-limit')) ?? ''
      const [, hard, soft = '0', seconds] = /pubsub (\d+) (\d+) (\d+)/.exec(limits) ?? []
      if (hard === undefined) return note('not reported by the server')
      const isSmall = [hard, soft].some((limit) => Number(limit) > 0 && Number(limit) < MIN_PUBSUB_BUFFER)
      const message = `${size(hard)}, or ${size(soft)} for ${seconds} s`
      const fix = 'CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"'
      return isSmall ? warning(message, fix) : ok(message)
    },
  },
]

export function size(bytes: string | number): string {
  const number = Number(bytes)
  if (number === 0) return 'no limit'
  if (number === 1) return '1 byte'
  const units = ['bytes', 'kB', 'MB', 'GB']
  const at = Math.min(Math.floor(Math.log(number) / Math.log(1024)), units.length - 1)
  return `${Math.round((number / 1024 ** at) * 10) / 10} ${units[at]}`
}

import type { Check } from '../check.js'
import { type Finding, note, ok, problem, warning } from '../finding.js'
import { productOf } from '../products.js'
import { isBefore, type Server } from '../server.js'

/** How long one command may keep the server from all others, µs. */
const SLOW_COMMAND_US = 100_000
const VERY_SLOW_COMMAND_US = 1_000_000
const SLOW_FORK_US = 500_000
const LEAST_PUBSUB_BUFFER = 1024 * 1024

export const serverChecks: readonly Check[] = [
  {
    id: 'version',
    group: 'Server',
    title: 'Version',
    why: 'The scripts need what newer versions of Redis have; each version adds rights and channels that help locks.',
    async run(server) {
      const { product, text, compatible } = await server.version()
      const found = `${product} ${text}`
      if (text === '') return note('the server does not tell')
      const fix = 'a newer version: Redis 7.2 or Valkey 8, or later'
      if (isBefore(compatible, 5)) return problem(`${found}: scripts that ask for the time may not write`, fix)
      if (isBefore(compatible, 6, 0, 6)) return problem(`${found}: fair locks need LPOS, of 6.0.6`, fix)
      if (isBefore(compatible, 6, 2)) return note(`${found}: ACLs cannot limit channels`, fix)
      if (isBefore(compatible, 7))
        return note(`${found}: no sharded channels; in a cluster messages go to all nodes`, fix)
      return ok(found)
    },
  },
  {
    id: 'product',
    group: 'Server',
    title: 'Product',
    why:
      'Proxies and look-alikes answer some commands otherwise: a WAIT on another connection than the write means nothing, ' +
      'and a connection that is shared hears no messages.',
    async run(server) {
      const stranger = await strangerOf(server)
      const [first, second] = [await idOf(server), await idOf(server)]
      if (first !== second) {
        return warning(
          `the commands of one connection arrive on several (CLIENT ID says ${first}, then ${second}): a proxy`,
          'connect to Redis itself, or let the proxy pin connections',
        )
      }
      if (stranger) return stranger
      const mode = (await server.infoField('redis_mode')) || (await server.infoField('server_mode')) // the latter is Valkey's
      return ok(`${mode || 'a single server'}, nothing in between that shows`)
    },
  },
  {
    id: 'script-limit',
    group: 'Server',
    title: 'Slow scripts',
    why: 'When a script of anybody takes longer, Redis answers BUSY to all others: no lock is taken or renewed meanwhile.',
    async run(server) {
      const modern = await server.setting('busy-reply-threshold') // before Redis 7 it has but the older name
      const limit = Number(modern ?? (await server.setting('lua-time-limit')))
      if (Number.isNaN(limit)) return note('the server does not tell')
      const fix = `CONFIG SET ${modern === undefined ? 'lua-time-limit' : 'busy-reply-threshold'} 5000`
      if (limit === 0) return note('scripts may take as long as they like, and all others wait', fix)
      const found = `BUSY after ${limit} ms`
      return limit < 1_000 ? warning(found, fix) : ok(found)
    },
  },
  {
    id: 'slow-commands',
    group: 'Server',
    title: 'Slow commands',
    why: 'Redis does one command at a time: while one takes long, nothing is renewed.',
    async run(server) {
      const entries = (await server.ask('SLOWLOG', 'GET', '128')) as [number, number, number, string[]][]
      const [slowest] = entries.sort((one, other) => Number(other[2]) - Number(one[2]))
      const micros = slowest ? Number(slowest[2]) : 0
      const fix = 'SLOWLOG GET 128 shows them: split them, or give locks a Redis of their own'
      if (micros >= SLOW_COMMAND_US) {
        // Not its arguments: they may be secrets.
        const found = `${slowest?.[3]?.[0]?.toUpperCase() ?? 'one'} once took ${Math.round(micros / 1_000)} ms`
        return micros >= VERY_SLOW_COMMAND_US ? warning(found, fix) : note(found, fix)
      }
      const forkMicros = await server.counted('latest_fork_usec')
      if (forkMicros >= SLOW_FORK_US) {
        const fix = 'turn transparent huge pages off on that machine, and save less often'
        return note(`the last fork, for a snapshot, stopped Redis for ${Math.round(forkMicros / 1_000)} ms`, fix)
      }
      return ok('none of the last 128 took 100 ms')
    },
  },
  {
    id: 'output-buffer',
    group: 'Server',
    title: 'Subscriber buffers',
    why: 'Whoever is slow to read messages is disconnected at this limit, and misses those that come meanwhile.',
    async run(server) {
      const limits = (await server.setting('client-output-buffer-limit')) ?? ''
      const [, hard, soft = '0', seconds] = /pubsub (\d+) (\d+) (\d+)/.exec(limits) ?? []
      if (hard === undefined) return note('the server does not tell')
      const isSmall = [hard, soft].some((limit) => Number(limit) > 0 && Number(limit) < LEAST_PUBSUB_BUFFER)
      const found = `${size(hard)}, or ${size(soft)} for ${seconds} s`
      return isSmall ? warning(found, 'CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"') : ok(found)
    },
  },
]

/** What is known of a server that is not quite Redis. */
async function strangerOf(server: Server): Promise<Finding | undefined> {
  try {
    return productOf(await server.info()).finding
  } catch (error) {
    // A refusal is one of Redis; a proxy does not know the command.
    if (/NOPERM/.test(String(error))) throw error
    return warning(
      'INFO is not answered: a proxy (Envoy, twemproxy), or a service that hides it',
      'connect to Redis itself',
    )
  }
}

async function idOf(server: Server): Promise<string> {
  try {
    return await server.askText('CLIENT', 'ID')
  } catch {
    return '' // before Redis 5, or not allowed
  }
}

export function size(bytes: string | number): string {
  const number = Number(bytes)
  if (number === 0) return 'no limit'
  if (number === 1) return '1 byte'
  const units = ['bytes', 'kB', 'MB', 'GB']
  const at = Math.min(Math.floor(Math.log(number) / Math.log(1024)), units.length - 1)
  return `${Math.round((number / 1024 ** at) * 10) / 10} ${units[at]}`
}

import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import type { Server } from '../server.js'
import { size } from './server.js'

const CONF = 'and the same in redis.conf, or where you administer it'

export const dataChecks: readonly Check[] = [
  {
    id: 'eviction',
    group: 'Data',
    title: 'Eviction',
    why: 'A lock is a key with a TTL. If Redis is short of memory it may delete it, and the next one who asks gets in.',
    async run(server) {
      const policy = (await server.infoField('maxmemory_policy')) || (await server.setting('maxmemory-policy'))
      if (policy === undefined) return note('the server does not tell')
      if (policy === 'noeviction') return ok('noeviction')
      const fix = `CONFIG SET maxmemory-policy noeviction, ${CONF}; a cache that has to evict needs a Redis of its own`
      if ((await server.counted('maxmemory')) === 0) {
        return warning(`${policy}: locks will be evicted as soon as maxmemory is set`, fix)
      }
      const evicted = await server.counted('evicted_keys')
      return problem(`${policy}: locks can be evicted${evicted > 0 ? ` (${evicted} keys were, so far)` : ''}`, fix)
    },
  },
  {
    id: 'memory',
    group: 'Data',
    title: 'Memory',
    why: 'Without free memory Redis refuses what writes (OOM): no lock can be taken.',
    async run(server) {
      const [used, most, total] = await Promise.all(
        ['used_memory', 'maxmemory', 'total_system_memory'].map((name) => server.counted(name)),
      )
      if (used === undefined || Number.isNaN(used)) return note('the server does not tell')
      const limit = most || total || Number.NaN
      const found = `${size(used)} of ${size(limit)}${most ? '' : ', all that the machine has'}`
      const fix = 'CONFIG SET maxmemory with more, or fewer keys'
      if (most && used >= most) return problem(found, fix)
      return used > limit * 0.9 ? warning(found, fix) : ok(Number.isNaN(limit) ? size(used) : found)
    },
  },
  {
    id: 'persistence',
    group: 'Data',
    title: 'Persistence',
    why:
      'After a restart without its data Redis grants again what is still held. Holders are notified when they reconnect, but ' +
      'until then there are two; only a restart that takes longer than the longest lease is harmless. Fencing tokens begin ' +
      'again, and no longer protect.',
    async run(server) {
      const failed = await failedWrites(server)
      if (failed) return failed
      const fix = `CONFIG SET appendonly yes, ${CONF}`
      if ((await server.counted('aof_enabled')) === 1) {
        const fsync = await server.setting('appendfsync').catch(() => undefined)
        if (fsync === 'always') return ok('AOF, written before each answer')
        if (fsync === 'no')
          return note('AOF, written when the system likes', `CONFIG SET appendfsync everysec, ${CONF}`)
        return ok('AOF; a power failure may cost the last second')
      }
      const save = await server.setting('save').catch(() => undefined)
      if (save === '') return warning('none: a restart forgets all locks', fix)
      const saved = save === undefined ? 'no AOF' : 'snapshots only'
      return warning(`${saved}: a restart forgets the locks since the last one, and fencing tokens go back`, fix)
    },
  },
]

/** With stop-writes-on-bgsave-error, and when the AOF cannot be written, Redis takes no writes (MISCONF). */
async function failedWrites(server: Server) {
  const [aof, rdb] = await Promise.all([
    server.infoField('aof_last_write_status'),
    server.infoField('rdb_last_bgsave_status'),
  ])
  const fix = 'free its disk, see the log of Redis, then BGSAVE'
  if (aof === 'err') return problem('the AOF cannot be written: Redis refuses writes (MISCONF)', fix)
  if (rdb !== 'err') return undefined
  const stops = await server.setting('stop-writes-on-bgsave-error').catch(() => undefined)
  if (stops === 'no') return warning('the last snapshot failed', fix)
  return problem('the last snapshot failed: Redis refuses writes (MISCONF)', fix)
}

// Checks what a restart keeps.
import type { Check } from '../check.js'
import { ALSO_IN_CONF, note, ok, problem, warning } from '../finding.js'
import type { Server } from '../server.js'

export const persistenceChecks: readonly Check[] = [
  {
    id: 'persistence',
    group: 'Data',
    title: 'Persistence',
    why:
      'After a restart without its data, Redis grants locks that are still held. The old holders are notified when they ' +
      'reconnect; until then there are two. Only a restart that takes longer than the longest lease is harmless. Fencing ' +
      'tokens start again and no longer protect.',
    async run(server) {
      const failed = await failedWrites(server)
      if (failed) return failed
      const fix = `CONFIG SET appendonly yes, ${ALSO_IN_CONF}`
      if ((await server.infoNumber('aof_enabled')) === 1) {
        const fsync = await server.setting('appendfsync').catch(() => undefined)
        if (fsync === 'always') return ok('AOF, fsynced before each reply')
        if (fsync === 'no')
          return note('AOF, fsynced when the system decides', `CONFIG SET appendfsync everysec, ${ALSO_IN_CONF}`)
        return ok('AOF; a power failure may cost the last second')
      }
      const save = await server.setting('save').catch(() => undefined)
      if (save === '') return warning('none: a restart loses all locks', fix)
      const saved = save === undefined ? 'no AOF' : 'snapshots only'
      return warning(`${saved}: a restart loses the locks since the last snapshot, and fencing tokens repeat`, fix)
    },
  },
]

/** With stop-writes-on-bgsave-error, and when the AOF cannot be written, Redis refuses writes (MISCONF). */
async function failedWrites(server: Server) {
  const [aof, rdb] = await Promise.all([
    server.infoField('aof_last_write_status'),
    server.infoField('rdb_last_bgsave_status'),
  ])
  const fix = 'check the log of Redis and the space on its disk, then BGSAVE'
  if (aof === 'err') return problem('the AOF cannot be written: Redis refuses writes (MISCONF)', fix)
  if (rdb !== 'err') return undefined
  const stops = await server.setting('stop-writes-on-bgsave-error').catch(() => undefined)
  if (stops === 'no') return warning('the last snapshot failed', fix)
  return problem('the last snapshot failed: Redis refuses writes (MISCONF)', fix)
}

// Checks maxmemory and its eviction policy.
import type { Check } from '../check.js'
import { ALSO_IN_CONF, note, ok, problem, warning } from '../finding.js'
import { size } from './server.js'

export const memoryChecks: readonly Check[] = [
  {
    id: 'eviction',
    group: 'Data',
    title: 'Eviction',
    why: 'A lock is a key with a TTL. A Redis that is short of memory may delete it, and another client then acquires it.',
    async run(server) {
      const policy = (await server.infoField('maxmemory_policy')) || (await server.setting('maxmemory-policy'))
      if (policy === undefined) return note('not reported by the server')
      if (policy === 'noeviction') return ok('noeviction')
      const fix = `CONFIG SET maxmemory-policy noeviction, ${ALSO_IN_CONF}; a cache that has to evict needs its own Redis`
      if ((await server.infoNumber('maxmemory')) === 0) {
        return warning(`${policy}: locks will be evicted as soon as maxmemory is set`, fix)
      }
      const evicted = await server.infoNumber('evicted_keys')
      return problem(`${policy}: locks can be evicted${evicted > 0 ? ` (${evicted} keys so far)` : ''}`, fix)
    },
  },
  {
    id: 'memory',
    group: 'Data',
    title: 'Memory',
    why: 'Without free memory, Redis refuses writes (OOM), and no lock can be acquired.',
    async run(server) {
      const [used, most, total] = await Promise.all(
        ['used_memory', 'maxmemory', 'total_system_memory'].map((name) => server.infoNumber(name)),
      )
      if (used === undefined || Number.isNaN(used)) return note('not reported by the server')
      const limit = most || total || Number.NaN
      const message = `${size(used)} of ${size(limit)}${most ? '' : ', the memory of the machine'}`
      const fix = 'raise maxmemory with CONFIG SET, or store fewer keys'
      if (most && used >= most) return problem(message, fix)
      return used > limit * 0.9 ? warning(message, fix) : ok(Number.isNaN(limit) ? size(used) : message)
    },
  },
]

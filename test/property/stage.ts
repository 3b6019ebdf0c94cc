import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Client } from '../../src/index.js'
import type { LeaseContext } from '../../src/locks/lease.js'

const DUMP = `
local found = {}
for database = 0, ARGV[2] - 1 do
  if ARGV[2] ~= '1' then
    redis.call('select', database)
  end
  for _, key in ipairs(redis.call('keys', ARGV[1])) do
    local type, content = redis.call('type', key).ok, {}
    if type == 'hash' then
      content = redis.call('hgetall', key)
    elseif type == 'list' then
      content = redis.call('lrange', key, 0, -1)
    elseif type == 'zset' then
      content = redis.call('zrange', key, 0, -1, 'withscores')
    elseif type == 'string' then
      content = { redis.call('get', key) }
    end
    table.insert(found, { database, key, type, redis.call('pttl', key), content })
  end
end
-- after the expiries: if this process stands still in between, no key seems to end too early
table.insert(found, 1, redis.call('time'))
return found`
export const DUMP_SHA1 = createHash('sha1').update(DUMP).digest('hex')

/** Where sequences run, one after the other: separate clients, and access to Redis. */
export class Stage {
  readonly admin: Redis
  /** By client of the cast and database. */
  readonly clients: readonly (readonly Client[])[]

  constructor(admin: Redis, clients: readonly (readonly Client[])[]) {
    this.admin = admin
    this.clients = clients
  }

  async prepare(): Promise<void> {
    await this.admin.script('LOAD', DUMP)
  }

  get contexts(): readonly LeaseContext[] {
    return this.clients.flat().map((client) => client.getLock('any').context)
  }

  /** Resolves when all commands have a reply. Background releases have been tried once then. */
  async quiet(): Promise<void> {
    const { contexts } = this
    for (;;) {
      await setImmediate()
      const busy = contexts.find(({ scripts }) => !scripts.isIdle)
      if (!busy) return
      await busy.scripts.idle()
    }
  }
}

/** How often each thing happened. */
export class Tally extends Map<string, number> {
  count(what: string): void {
    this.set(what, (this.get(what) ?? 0) + 1)
  }
}

import type { Redis } from 'ioredis'
import { lockOfKind } from '../../src/client.js'
import { type BaseLock, type Client, getMultiLock, getRedLock, type Hold, type Lock } from '../../src/index.js'
import { KINDS, type NamedKindId } from '../../src/locks/kinds/table.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import {
  fairChannelPrefix,
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  lockChannel,
  readHoldPrefix,
  readWriteChannel,
} from '../../src/wire/keys.js'
import { CellsModel, type CellTarget, type CellTraits } from './cells-model.js'
import type { Cast } from './commands.js'
import { JointModel } from './joint-model.js'
import type { Model } from './model.js'
import { LEASE_TIMES_S } from './operations.js'
import { ReadWriteModel } from './read-write-model.js'

/** A key as Redis has it. */
export interface Row {
  readonly database: number
  readonly key: string
  readonly type: string
  readonly ttlMs: number
  /** Of a hash field, value, field, value …; of a sorted set member, score … */
  readonly content: readonly string[]
}

/** The holder of a lease, as Redis has it. */
type HolderOf = (lease: string) => string

/** A kind of lock: its model, its locks, and where Redis has it. */
export interface Kind {
  readonly title: string
  readonly cast: Cast & { readonly scopes: number; readonly clients: number }
  /** Databases of the server, each of which plays a separate server; each client of the cast has one client for each. */
  readonly databases: number
  /** How many commands a sequence has at most. */
  readonly maxLength: number
  model(): Model
  /** @param clients  one for each database */
  lock(clients: readonly Client[], name: string, target: number): BaseLock
  /** A member of a hold on several locks, by the name that it has in the model. */
  cellOf(member: Hold, clients: readonly Client[]): string
  /** The keys as the model writes them. @param now  epoch ms, by Redis */
  read(rows: readonly Row[], name: string, now: number): Record<string, string>
  /** Another program deletes it and notifies the waiters. */
  expire(admin: Redis, name: string, what: string, holderOf: HolderOf): Promise<unknown>
  /** Another program acquires it while it is free. */
  intrude(admin: Redis, name: string, target: number): Promise<unknown>
}

/** By how much a lease may have become shorter since its request, s. */
const SLACK_S = 30
/** By how much the clock of a machine may be set back meanwhile, ms. */
const STEP_MS = 5

/** The lease time that a remaining lease began with. */
export function leaseText(leftMs: number): string {
  if (leftMs === 0) return '0 s'
  const leaseS = LEASE_TIMES_S.find(
    (leaseS) => leftMs <= leaseS * 1_000 + STEP_MS && leftMs > (leaseS - SLACK_S) * 1_000,
  )
  return leaseS === undefined ? `${leftMs} ms` : `${leaseS} s`
}

export const STRANGER_HOLDER = 'stranger:1'
const STRANGER_LEASE_MS = LEASE_TIMES_S[1] * 1_000

/** A client with two threads, one with one, and tasks without a thread on three. */
const CAST = {
  callers: [
    { client: 0 },
    { client: 0, scope: 0 },
    { client: 0, scope: 1 },
    { client: 1 },
    { client: 1, scope: 2 },
    { client: 2 },
  ],
  scopes: 3,
  clients: 3,
  isAdoptable: true,
}

const ONE_CELL = { cells: ['lock'], targets: [{ title: 'lock', cells: [0] }], form: 'hash' } as const

const EXPIRE_FAIR = `
redis.call('del', KEYS[1])
redis.call('publish', KEYS[3] .. (redis.call('lindex', KEYS[2], 0) or ''), '0')`

/** A kind whose locks are one cell each. */
function oneLock(
  id: NamedKindId,
  form: CellTraits['form'] = 'hash',
  lock = (client: Client, name: string): BaseLock => lockOfKind(client, id, name),
): Kind {
  const { title, isQueuedInRedis: isFair = false, isReentrant = true } = KINDS[id]
  const traits = { form, isFair, isNonReentrant: !isReentrant, isFenced: id === 'fenced' }
  return {
    title,
    cast: CAST,
    databases: 1,
    maxLength: 24,
    model: () => new CellsModel({ ...ONE_CELL, ...traits }, CAST.scopes),
    lock: ([client], name) => lock(client as Client, name),
    cellOf: () => 'lock',
    read(rows, name, now) {
      const found: Record<string, string> = {}
      let deadlines: Row | undefined
      for (const row of rows) {
        if (row.key === name) found['lock'] = contentOf(row)
        else if (row.key === fairQueue(name)) found['queue'] = row.content.join(' ')
        else if (row.key === fairDeadlines(name)) deadlines = row
        else if (row.key === fencingTokenKey(name) && row.ttlMs === -1) found['token'] = row.content.join()
        else found[row.key] = contentOf(row)
      }
      const late = latenessOf(deadlines, found['queue'], now)
      if (late) found['deadlines'] = late
      return found
    },
    async expire(admin, name) {
      if (traits.isFair) await admin.eval(EXPIRE_FAIR, 3, name, fairQueue(name), fairChannelPrefix(name))
      else await admin.multi().del(name).publish(lockChannel(name), '0').exec()
    },
    async intrude(admin, name) {
      if (traits.form === 'string') await admin.set(name, STRANGER_HOLDER, 'PX', STRANGER_LEASE_MS, 'NX')
      else await admin.multi().hsetnx(name, STRANGER_HOLDER, 1).pexpire(name, STRANGER_LEASE_MS).exec()
    },
  }
}

function contentOf({ type, content, ttlMs }: Row): string {
  if (type !== 'hash') return `${type} ${content.join(' ')}, ${leaseText(ttlMs)}`
  const fields: string[] = []
  for (let index = 0; index < content.length; index += 2) fields.push(`${content[index]}=${content[index + 1]}`)
  const isMode = (field: string): boolean => field.startsWith('mode=')
  const sorted = [...fields.filter(isMode), ...fields.filter((field) => !isMode(field)).sort()]
  return `hash ${sorted.join(' ')}, ${leaseText(ttlMs)}`
}

/** What is wrong with the deadlines of a fair lock's queue: each waiter in it must have one in the future. */
function latenessOf(deadlines: Row | undefined, queue: string | undefined, now: number): string | undefined {
  const { content = [] } = deadlines ?? {}
  const members = content.filter((_, index) => index % 2 === 0)
  const scores = content.filter((_, index) => index % 2 === 1).map(Number)
  const isSame = members.toSorted().join(' ') === (queue?.split(' ') ?? []).sort().join(' ')
  if (isSame && scores.every((score) => score > now)) return undefined
  return members.map((member, index) => `${member} in ${(scores[index] as number) - now} ms`).join(', ')
}

const EXPIRE_READ_WRITE = `
redis.call('del', KEYS[1], unpack(redis.call('keys', ARGV[1])))
redis.call('publish', KEYS[2], '1')`

const readWrite: Kind = {
  title: 'read-write lock',
  cast: { ...CAST, isAdoptable: false },
  databases: 1,
  maxLength: 24,
  model: () => new ReadWriteModel(CAST.scopes),
  lock([client], name, target) {
    const lock = (client as Client).getReadWriteLock(name)
    return target === 0 ? lock.readLock() : lock.writeLock()
  },
  cellOf: () => 'lock',
  read(rows, name) {
    const found: Record<string, string> = {}
    const prefix = readHoldPrefix(name)
    for (const row of rows) {
      const [holder, number] = row.key.slice(prefix.length).split(':rwlock_timeout:')
      if (row.key === name) found['lock'] = contentOf(row)
      else if (row.key.startsWith(prefix) && row.content.join() === '1')
        found[`read ${holder} ${number}`] = leaseText(row.ttlMs)
      else found[row.key] = contentOf(row)
    }
    const reads = Object.keys(found)
    const isDead = (field: string): boolean =>
      !/^(mode|.*:write)=/.test(field) && !reads.some((key) => key.startsWith(`read ${field.split('=', 1)[0]} `))
    const { lock } = found
    if (lock !== undefined)
      found['lock'] = lock.replace(/(?<=^hash mode=\w+ ).*(?=, )/, (fields) =>
        fields
          .split(' ')
          .filter((field) => !isDead(field))
          .join(' '),
      )
    return found
  },
  async expire(admin, name, what, holderOf) {
    const prefix = readHoldPrefix(name)
    const [reader = '', number] = what.split(' ')
    if (number !== undefined) {
      // Waiters ask every few seconds, and find out then who died: here they are told to.
      const hold = `${prefix}${holderOf(reader)}:rwlock_timeout:${number}`
      await admin.multi().del(hold).publish(readWriteChannel(name), '0').exec()
    } else await admin.eval(EXPIRE_READ_WRITE, 2, name, readWriteChannel(name), what === 'hash' ? '' : `${prefix}*`)
  },
  intrude: async () => {},
}

const VALUES = ['a', 'b', 'c', 'd']

/** Some of the values, in some order. */
const SUBSETS: readonly CellTarget[] = [
  [0],
  [1],
  [2],
  [0, 1],
  [1, 0],
  [1, 2],
  [2, 3],
  [3, 0, 1],
  [0, 1, 2, 3],
  [2, 0],
].map((cells) => ({ title: cells.map((cell) => VALUES[cell]).join(''), cells }))

const EXPIRE_VALUES = `
for _, value in ipairs(ARGV) do
  local mine = value .. ':' .. (redis.call('hget', KEYS[1], value) or '')
  redis.call('hdel', KEYS[1], value, mine .. ':expire_time', mine .. ':lock_count')
end
redis.call('publish', KEYS[2], '0')`

const group: Kind = {
  title: 'multi-lock of values',
  cast: { ...CAST, isAdoptable: false },
  databases: 1,
  maxLength: 24,
  model: () => new CellsModel({ cells: VALUES, targets: SUBSETS, form: 'group' }, CAST.scopes),
  lock([client], name, target) {
    const { cells } = SUBSETS[target] as CellTarget
    return (client as Client).getFasterMultiLock(
      name,
      cells.map((cell) => VALUES[cell] as string),
    )
  },
  cellOf: () => '',
  read(rows, name, now) {
    const found: Record<string, string> = {}
    for (const row of rows) {
      if (row.key !== name) {
        found[row.key] = contentOf(row)
        continue
      }
      const hash = new Map<string, string>()
      for (let index = 0; index < row.content.length; index += 2) {
        hash.set(row.content[index] as string, row.content[index + 1] as string)
      }
      const take = (field: string): string | undefined => {
        const value = hash.get(field)
        hash.delete(field)
        return value
      }
      const held = VALUES.flatMap((value) => {
        const digest = fieldDigest(value)
        const holder = take(digest)
        if (holder === undefined) return []
        const leftMs = Number(take(`${digest}:${holder}:expire_time`)) - now
        const isKept = row.ttlMs > leftMs ? '' : `, but the group only ${row.ttlMs} ms`
        return [`${value}=${holder}×${take(`${digest}:${holder}:lock_count`)} ${leaseText(leftMs)}${isKept}`]
      })
      found['group'] = [...held, ...hash.keys()].join(' ')
    }
    return found
  },
  async expire(admin, name, what) {
    const meant = what === 'everything' ? VALUES : [what]
    await admin.eval(EXPIRE_VALUES, 2, name, lockChannel(name), ...meant.map(fieldDigest))
  },
  intrude: async () => {},
}

/** One lock each, and some of them as one, in some order. */
const LOCKS = ['a', 'b', 'c']
const MULTI: readonly CellTarget[] = [[0], [1], [2], [0, 1], [1, 0], [2, 0], [2, 1, 0], [1, 2], [0]].map(
  (cells, index) => {
    const title = cells.map((cell) => LOCKS[cell]).join('+')
    return index < LOCKS.length ? { title, cells } : { title: `multi-lock ${title}`, cells, needed: cells.length }
  },
)

const multi: Kind = {
  title: 'multi-lock',
  cast: { ...CAST, isAdoptable: false },
  databases: 1,
  maxLength: 24,
  model: () => new JointModel({ cells: LOCKS, targets: MULTI, form: 'hash' }, CAST.scopes),
  lock([client], name, target) {
    const { cells, needed } = MULTI[target] as CellTarget
    const [first, ...rest] = cells.map((cell) => (client as Client).getLock(name + LOCKS[cell]))
    return needed === undefined ? (first as Lock) : getMultiLock(first as Lock, ...rest)
  },
  cellOf: (member) => member.lockName.slice(-1),
  read: (rows, name) => Object.fromEntries(rows.map((row) => [row.key.replace(name, ''), contentOf(row)])),
  async expire(admin, name, what) {
    const commands = admin.multi()
    for (const lock of what === 'everything' ? LOCKS : [what]) {
      commands.del(name + lock).publish(lockChannel(name + lock), '0')
    }
    await commands.exec()
  },
  intrude: async () => {},
}

const RED: readonly CellTarget[] = [
  ...LOCKS.map((title, index) => ({ title, cells: [index] })),
  ...[1, 2, 3].map(() => ({ title: 'red lock', cells: [0, 1, 2], needed: 2 })),
]

const EXPIRE_IN_DATABASE = `
redis.call('select', ARGV[1])
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')`

const red: Kind = {
  title: 'red lock',
  cast: { callers: [{ client: 0 }, { client: 1 }, { client: 2 }], scopes: 0, clients: 3, isAdoptable: false },
  databases: 3,
  maxLength: 24,
  model: () => new JointModel({ cells: LOCKS, targets: RED, form: 'hash' }, 0),
  lock(clients, name, target) {
    const [first, ...rest] = clients.map((client) => client.getLock(name))
    const one = clients[target]?.getLock(name)
    return one ?? getRedLock(first as Lock, ...rest)
  },
  cellOf(member, clients) {
    return LOCKS[clients.findIndex(({ id }) => member.holder.startsWith(`${id}:`))] as string
  },
  read: (rows) => Object.fromEntries(rows.map((row) => [LOCKS[row.database] as string, contentOf(row)])),
  async expire(admin, name, what) {
    const meant = what === 'everything' ? [0, 1, 2] : [LOCKS.indexOf(what)]
    await Promise.all(meant.map((database) => admin.eval(EXPIRE_IN_DATABASE, 2, name, lockChannel(name), database)))
  },
  intrude: async () => {},
}

export const kinds: readonly Kind[] = [
  oneLock('lock'),
  oneLock('nonReentrant'),
  oneLock('fair'),
  oneLock('nonReentrantFair'),
  readWrite,
  oneLock('fenced'),
  oneLock('spin', 'hash', (client, name) => client.getSpinLock(name, { backOff: { type: 'constant', delayMs: 4 } })),
  oneLock('string', 'string'),
  group,
  multi,
  red,
]

import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import {
  type BaseLock,
  type Client,
  type FencedLock,
  type Hold,
  LeaseLostError,
  type Lock,
  type LockOptions,
  NotHeldError,
  SelfDeadlockError,
  WaitTimeoutError,
} from '../../src/index.js'
import type { LeaseContext } from '../../src/locks/lease.js'
import { turnQueueKey } from '../../src/wire/keys.js'
import { settlesWithin } from '../support/wait-until.js'
import { STRANGER } from './cells-model.js'
import { type Command, operationsOf } from './commands.js'
import { describe, kindOf, kindOfOutcome } from './describe-operation.js'
import { explore } from './explore.js'
import { type Kind, leaseOf, type Row, STRANGER_HOLDER } from './kinds.js'
import type { Caller, Model, Operation, Spell, Take } from './model.js'

/** How soon a waiter gets what is free. A waiter that was not woken polls after 4.5 s at the earliest. */
const SERVED_WITHIN_MS = 4_000
/** How soon any other call settles. */
const ANSWERED_WITHIN_MS = 10_000
/** The same if a multi-lock waits, which keeps what it has for a while before it releases it; longer after each round. */
const JOINT_SERVED_WITHIN_MS = 10_000
const SOON_MS = 3
const LONG_MS = 60_000

const DUMP = `
local found = { redis.call('time') }
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
return found`
const DUMP_SHA1 = createHash('sha1').update(DUMP).digest('hex')

const UUID = /[\da-f]{8}-[\da-f-]{27}/g
const ABORTED = new Error('aborted by the test')

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

/** How often what happened. */
export class Tally extends Map<string, number> {
  count(what: string): void {
    this.set(what, (this.get(what) ?? 0) + 1)
  }
}

/** Redis and the clients do not do what the model does. */
class Disagreement extends Error {}

/** A state that agrees with everything seen, and the holders that it assigns to its leases. */
interface State {
  readonly model: Model
  readonly names: ReadonlyMap<string, string>
}

/** One sequence of operations, done for real and by the model side by side. */
export class World {
  readonly #kind: Kind
  readonly #stage: Stage
  readonly #name: string
  readonly #tally: Tally
  readonly #history: string[] = []
  readonly #holds = new Map<string, Hold>()
  readonly #fates = new Map<string, string>()
  readonly #waits = new Map<string, { readonly controller: AbortController; readonly since: number }>()
  /** How often each hold was reported lost. */
  readonly #reported = new Map<Hold, number>()
  readonly #warnings: unknown[] = []
  /** The holders of possessions, as far as they are known. */
  readonly #names = new Map<string, string>([[STRANGER, STRANGER_HOLDER]])
  /** The caller, which distinguishes the places of several in a queue. */
  readonly #clientOf = new Map<string, number>()
  /** Client ids, and what we call them. */
  readonly #labels = new Map<string, string>()
  readonly #ids = new Map<string, string>()
  readonly #scopes: (<T>(fn: () => T) => T)[] = []
  /** Not everything is visible, such as which of two waiters of one client is first. So there may be several. */
  #states: readonly State[]
  #lastId = 0

  constructor(kind: Kind, stage: Stage, name: string, tally: Tally) {
    this.#kind = kind
    this.#stage = stage
    this.#name = name
    this.#tally = tally
    this.#states = [{ model: kind.model(), names: new Map() }]
    for (const [index, clients] of stage.clients.entries()) {
      for (const [database, { id }] of clients.entries()) {
        const label = `c${index + 1}${clients.length > 1 ? 'abc'[database] : ''}`
        this.#labels.set(id, label)
        this.#ids.set(label, id)
      }
    }
    for (const { client, scope } of kind.cast.callers) {
      if (scope !== undefined) this.#scopes[scope] = this.#client(client).runInScope(() => AsyncLocalStorage.snapshot())
    }
  }

  /** @throws {Disagreement} with what happened until then */
  async run(commands: readonly Command[]): Promise<void> {
    const onLost = ({ hold }: { hold: Hold }): void =>
      void this.#reported.set(hold, (this.#reported.get(hold) ?? 0) + 1)
    const onWarning = (warning: Error): void => void this.#warnings.push(warning)
    const clients = this.#stage.clients.flat()
    for (const client of clients) client.on('lost', onLost).on('warning', onWarning)
    try {
      for (const command of commands) {
        const operations = operationsOf(command, this.#lastId + 1, this.#model, this.#kind.cast, this.#spell())
        this.#lastId += command.length
        if (operations.length > 0) await this.#step(operations)
      }
      await this.#endAll()
    } catch (error) {
      await this.#cleanUp()
      throw error
    } finally {
      for (const client of clients) client.off('lost', onLost).off('warning', onWarning)
      await this.#stage.admin.del(`redisson_lock_token:{${this.#name}}`)
    }
  }

  /** Release all there is; then nothing may be left, in Redis or in the clients. */
  async #endAll(): Promise<void> {
    for (let waiter = this.#model.waiters[0]; waiter; waiter = this.#model.waiters[0]) {
      await this.#step([{ do: 'abort', waiter: waiter.take.id }])
    }
    for (let hold = this.#model.live.at(-1); hold !== undefined; hold = this.#model.live.at(-1)) {
      await this.#step([{ do: 'unlock', hold, isRepeated: false }])
    }
    // What is left of a hold on several locks that was lost.
    for (const hold of this.#model.known) {
      if (this.#model.isJointHold(hold) && this.#model.stateOf(hold) === 'lost')
        await this.#step([{ do: 'unlock', hold, isRepeated: false }])
    }
    // Transferred holds that were not adopted, holds of strangers, and remains of keys that belong together.
    for (let what = this.#model.expirable[0]; what !== undefined; what = this.#model.expirable[0]) {
      await this.#step([{ do: 'expire', what }])
    }
    const left = Object.keys(this.#model.lines(this.#spell())).filter((line) => /^key (?!token)/.test(line))
    for (const { leases, waitQueues } of this.#stage.contexts) {
      if (leases.size > 0) left.push(`${leases.size} leases of a client`)
      if (waitQueues.size > 0) left.push(`${waitQueues.size} waiters of a client`)
    }
    if (left.length > 0) this.#disagree(`At the end there is still\n  ${left.join('\n  ')}`)
  }

  /** After a failure: the next sequence must not suffer from it. */
  async #cleanUp(): Promise<void> {
    for (const { controller } of this.#waits.values()) controller.abort(ABORTED)
    await Promise.all([...this.#holds.values()].map((hold) => hold.unlock().catch(() => {})))
    await settlesWithin(this.#stage.quiet(), 2_000).catch(() => {})
    for (const { leases: possessions } of this.#stage.contexts)
      for (const lost of [...possessions]) lost.loseAll('gone')
    for (const { key, database } of (await this.#dump()).rows) {
      await this.#stage.admin.eval(`redis.call('select', ARGV[1]) redis.call('del', KEYS[1])`, 1, key, database)
    }
  }

  /** Operations that are started in one turn. */
  async #step(operations: readonly Operation[]): Promise<void> {
    const before = this.#states
    const lines = operations.map((operation, index) => {
      this.#history.push(`${index > 0 ? ' with ' : ''}${describe(operation, this.#model.targets)}`)
      return this.#history.length - 1
    })
    const started = operations.map((operation) => this.#start(operation))
    const answered = await settlesWithin(Promise.all(started), ANSWERED_WITHIN_MS).catch(() => undefined)
    if (answered?.status === 'rejected') throw answered.reason
    const outcomes =
      answered?.value ?? (await Promise.all(started.map((outcome) => Promise.race([outcome, 'no answer']))))
    for (const [index, line] of lines.entries()) {
      this.#history[line] += ` → ${outcomes[index]}`
      this.#tally.count(`${kindOf(operations[index] as Operation)} → ${kindOfOutcome(outcomes[index] as string)}`)
    }
    const fits = (operation: Operation, outcome: string, { names }: State): boolean => {
      if (operation.do === 'take' && operation.how === 'wait') return true
      const answer = outcomes[operations.indexOf(operation)] as string
      // The holders are listed in any order.
      const sorted = (text: string): string => (operation.do === 'ask' ? text.split(' ').sort().join(' ') : text)
      return sorted(this.#spellAll(outcome, names)) === sorted(answer)
    }
    const ends = before.flatMap((state) => {
      const models = explore(state.model, operations, (operation, outcome) => fits(operation, outcome, state))
      return models.map((model) => ({ model, names: state.names }))
    })
    const takes = [
      ...operations.filter((operation) => operation.do === 'take'),
      ...this.#model.waiters.map((w) => w.take),
    ]
    const waits = takes.filter(({ how }) => how === 'wait')
    const isJoint = waits.some(({ target }) => this.#model.isJoint(target))
    const giveUpAt = performance.now() + (isJoint ? JOINT_SERVED_WITHIN_MS : waits.length > 0 ? SERVED_WITHIN_MS : 0)
    for (;;) {
      await this.#stage.quiet()
      const found = await this.#read()
      if (this.#keep(ends, found)) return
      if (ends.length === 0 || performance.now() >= giveUpAt) this.#explain(before, operations, ends, found)
      await sleep(2)
    }
  }

  /** @returns false: none of these states agrees */
  #keep(ends: readonly State[], found: ReadonlyMap<string, string>): boolean {
    const fitting = new Map<string, State>()
    for (const { model, names } of ends) {
      const learned = this.#namesIn(model, found, names)
      if (!learned) continue
      const state = { model, names: new Map([...names, ...learned]) }
      fitting.set(`${model.fingerprint} ${JSON.stringify([...state.names].sort())}`, state)
    }
    if (fitting.size === 0) return false
    this.#tally.count(`${fitting.size > 1 ? 'several states' : 'one state'} after a step`)
    this.#states = [...fitting.values()]
    const [first, second] = this.#states
    if (!second) for (const [id, name] of first?.names ?? []) this.#names.set(id, name)
    return true
  }

  get #model(): Model {
    return (this.#states[0] as State).model
  }

  /** What can be seen of Redis and the clients at one moment, in the words of the model. */
  async #read(): Promise<Map<string, string>> {
    for (;;) {
      const before = this.#readClients()
      const { rows, now } = await this.#dump()
      const clients = this.#readClients()
      // Otherwise a waiter was served in between.
      if (JSON.stringify([...before]) !== JSON.stringify([...clients])) continue
      // In what order clients are woken is not of the model.
      const locks = rows.filter(({ key }) => !key.startsWith(turnQueueKey('').split('{', 1)[0] as string))
      const keys = Object.entries(this.#kind.read(locks, this.#name, now))
      return new Map([...keys.map(([key, content]) => [`key ${key}`, content] as const), ...clients])
    }
  }

  #readClients(): Map<string, string> {
    const found = new Map<string, string>()
    for (const [id, hold] of [...this.#holds]) {
      for (const member of hold.lease.members ?? []) this.#holds.set(`${id}/${this.#cellOf(member)}`, member)
    }
    for (const [id, hold] of this.#holds) found.set(`hold ${id}`, this.#stateOf(id, hold))
    for (const [id, fate] of this.#fates) found.set(`wait ${id}`, fate)
    for (const warning of this.#warnings) found.set('warning', String(warning))
    return found
  }

  #stateOf(id: string, hold: Hold): string {
    const { count, lostError, fencingToken } = hold
    const reported = this.#reported.get(hold) ?? 0
    // The signals of the others are not checked.
    const isAborted = Number.parseInt(id, 10) % 2 === 0 ? hold.signal.aborted : lostError !== undefined
    if (count > 0) {
      const wrong = reported > 0 || isAborted ? ', but reported lost' : ''
      const holder = hold.lease.members === undefined ? `, as ${this.#relabel(hold.holder)}` : ''
      return `live, 1 of ${count}${holder}${fencingToken === undefined ? '' : `, token ${fencingToken}`}${wrong}`
    }
    if (lostError) {
      return `lost${reported === 1 ? '' : `, reported by ${reported} events`}${isAborted ? '' : ', but its signal did not abort'}`
    }
    return reported > 0 || isAborted ? 'released, but reported lost' : 'released'
  }

  async #dump(): Promise<{ rows: readonly Row[]; now: number }> {
    const reply = await this.#stage.admin.evalsha(DUMP_SHA1, 0, `*${this.#name}*`, this.#kind.databases)
    const [[seconds, micros], ...keys] = reply as [[string, string], ...[number, string, string, number, string[]][]]
    const rows = keys.map(([database, key, type, ttlMs, content]) => {
      return { database, key: this.#relabel(key), type, ttlMs, content: content.map((word) => this.#relabel(word)) }
    })
    return { rows, now: Number(seconds) * 1_000 + Number(micros) / 1_000 }
  }

  /** The holders with which a state of the model agrees with what was found; undefined if it does with none. */
  #namesIn(
    end: Model,
    found: ReadonlyMap<string, string>,
    known: ReadonlyMap<string, string>,
  ): Map<string, string> | undefined {
    if ([...known].some(([id, name]) => (this.#names.get(id) ?? name) !== name)) return undefined
    const expected = Object.entries(end.lines(this.#spell(known)))
    if (expected.length !== found.size) return undefined
    const names = new Map<string, string>()
    for (const [line, text] of expected) {
      if (!this.#isSame(text, found.get(line), names)) return undefined
    }
    return names
  }

  /** @param names  holders by name; unknown ones are added */
  #isSame(expected: string, found: string | undefined, names: Map<string, string>): boolean {
    if (found === undefined || !expected.includes('#')) return expected === found
    const ids: string[] = []
    const pattern = expected.split(/(#[\w/]+)/).map((part, index) => {
      if (index % 2 === 0) return part.replace(/[\^$.*+?()[\]{}|\\]/g, '\\$&')
      const id = part.slice(1)
      const name = names.get(id)
      if (name !== undefined) return name
      ids.push(id)
      return `(c${this.#clientOf.get(id.split('/')[0] as string)}[a-c]?:[\\w:]+)`
    })
    const match = new RegExp(`^${pattern.join('')}$`).exec(found)
    for (const [index, id] of ids.entries()) if (match) names.set(id, match[index + 1] as string)
    return match !== null
  }

  /** @param names  holders by name */
  #spell(names?: ReadonlyMap<string, string>): Spell {
    return (possession) => this.#names.get(possession) ?? names?.get(possession) ?? `#${possession}`
  }

  #spellAll(text: string, names?: ReadonlyMap<string, string>): string {
    return text.replace(/#([\w/]+)/g, (_, id: string) => this.#spell(names)(id))
  }

  #relabel(text: string): string {
    return text.replace(UUID, (id) => this.#labels.get(id) ?? id)
  }

  #client(index: number): Client {
    return this.#stage.clients[index]?.[0] as Client
  }

  #lock(client: number, target: number): BaseLock {
    return this.#kind.lock(this.#stage.clients[client] as readonly Client[], this.#name, target)
  }

  #cellOf(member: Hold): string {
    const owner = this.#stage.clients.find((clients) => clients.some(({ id }) => member.holder.startsWith(id)))
    return this.#kind.cellOf(member, owner ?? [])
  }

  // What operations are for real. Each is started before this returns.

  async #start(operation: Operation): Promise<string> {
    if ('id' in operation) this.#clientOf.set(operation.id, operation.client + 1)
    try {
      return await this.#do(operation)
    } catch (error) {
      return outcomeOf(error)
    }
  }

  async #do(operation: Operation): Promise<string> {
    switch (operation.do) {
      case 'take':
        return await this.#take(operation)
      case 'nest':
        return await this.#nest(operation)
      case 'unlock':
        await this.#hold(operation.hold).unlock()
        return 'ok'
      case 'unlock current':
        await this.#in(operation, () => this.#single(operation).unlock())
        return 'ok'
      case 'abort':
        this.#waits.get(operation.waiter)?.controller.abort(ABORTED)
        return 'ok'
      case 'force':
        return String(await this.#single(operation).forceUnlock())
      case 'hand over':
        this.#hold(operation.hold).handOver()
        return 'ok'
      case 'adopt': {
        const { id, from, lease } = operation
        const hold = await this.#single(operation).adopt(this.#holderOf(from), { leaseTimeMs: lease * 1_000 })
        return this.#granted(id, hold)
      }
      case 'ask':
        return await this.#ask(this.#single(operation))
      case 'ask hold':
        return String(await this.#hold(operation.hold).isHeld())
      case 'ask count':
        return String(await this.#in(operation, () => this.#single(operation).getHoldCount()))
      case 'renew':
        for (const client of this.#stage.clients[operation.client] ?? []) client.getLock('any').context.watchdog.audit()
        return 'ok'
      case 'expire':
        await this.#kind.expire(this.#stage.admin, this.#name, operation.what, (id) => this.#holderOf(id))
        return 'ok'
      case 'intrude':
        return await this.#intrude(operation.target)
    }
  }

  async #take({ id, how, client, scope, target, lease, isRenewed, within }: Take): Promise<string> {
    const lock = this.#lock(client, target)
    const isOdd = Number(id) % 2 === 1
    const controller = new AbortController()
    const options: LockOptions = { within: within === undefined ? undefined : this.#hold(within) }
    if (!isRenewed) options.leaseTimeMs = lease * 1_000
    if (how === 'soon') options.waitTimeMs = SOON_MS
    if (how === 'now' && isOdd) options.waitTimeMs = 0
    if (how === 'wait' && isOdd) options.waitTimeMs = LONG_MS
    if (how === 'wait' || how === 'abandon') options.signal = controller.signal
    const isTry = isOdd !== (how === 'now')
    const asked = this.#in({ client, scope }, () => {
      // Without a wait time tryLock() tries once, and lock() waits without a limit.
      return (how === 'now' ? isTry : isTry && options.waitTimeMs !== undefined)
        ? lock.tryLock(options)
        : lock.lock(options)
    })
    if (how === 'abandon') controller.abort(ABORTED)
    const outcome = asked.then(
      (hold) => (hold === null ? 'refused' : this.#granted(id, hold)),
      (error: unknown) => outcomeOf(error),
    )
    if (how !== 'wait') return await outcome
    this.#waits.set(id, { controller, since: performance.now() })
    this.#fates.set(id, 'waiting')
    void outcome.then((fate) => this.#fates.set(id, fate))
    return 'started'
  }

  async #nest({ target, inner, lease, ...caller }: Operation & { do: 'nest' }): Promise<string> {
    const seen: string[] = []
    const [outerLock, innerLock] = [this.#lock(caller.client, target), this.#lock(caller.client, inner)]
    const options = { leaseTimeMs: lease * 1_000 }
    const outer = await this.#in(caller, () =>
      outerLock.tryWithLock(options, async (hold) => {
        seen.push(String(hold.count))
        const nested = await innerLock.tryWithLock(options, (hold) => void seen.push(String(hold.count)))
        if (!nested.ran) seen.push('refused')
      }),
    )
    return outer.ran ? seen.join(' ') : 'refused'
  }

  async #ask(lock: Lock): Promise<string> {
    const [isLocked, holders, leftMs, token] = await Promise.all([
      lock.isLocked(),
      lock.getHolders(),
      lock.remainingLeaseMs(),
      (lock as Partial<FencedLock>).getToken?.(),
    ])
    const who = holders.map(({ holder, holdCount }) => `${this.#relabel(holder)}×${holdCount}`).join(' ')
    const answer = `${who || 'free'} ${leaseOf(leftMs)}${token === undefined ? '' : `, token ${token}`}`
    return isLocked === holders.length > 0 ? answer : `${answer}, but isLocked() answers ${isLocked}`
  }

  async #intrude(target: number): Promise<string> {
    if (this.#model.holderAt(target) !== undefined) return 'false'
    await this.#kind.intrude(this.#stage.admin, this.#name, target)
    return 'true'
  }

  #granted(id: string, hold: Hold): string {
    this.#holds.set(id, hold)
    this.#names.set(id, this.#relabel(hold.holder))
    for (const member of hold.lease.members ?? []) {
      this.#names.set(`${id}/${this.#cellOf(member)}`, this.#relabel(member.holder))
    }
    return 'granted'
  }

  #single({ client, target }: { client: number; target: number }): Lock {
    return this.#lock(client, target) as Lock
  }

  #in<T>({ scope }: Caller, fn: () => T): T {
    return scope === undefined ? fn() : (this.#scopes[scope] as <R>(fn: () => R) => R)(fn)
  }

  #hold(id: string): Hold {
    return this.#holds.get(id) as Hold
  }

  /** As Redis has it. */
  #holderOf(possession: string): string {
    return (this.#names.get(possession) as string).replace(/^\w+/, (label) => this.#ids.get(label) ?? label)
  }

  // What is reported when it fails.

  #explain(
    before: readonly State[],
    operations: readonly Operation[],
    ends: readonly State[],
    found: ReadonlyMap<string, string>,
  ): never {
    const texts = (lines: Iterable<readonly [string, string]>): string =>
      [...lines].map(([line, text]) => `\n    ${line}: ${text}`).join('')
    if (ends.length > 0) {
      const expected = ends
        .slice(0, 3)
        .map(({ model, names }) => texts(Object.entries(model.lines(this.#spell(names)))))
      this.#disagree(`Then there should be${expected.join('\n  or')}\n  but there is${texts(found)}`)
    }
    const possible = new Set<string>()
    for (const { model, names } of before) {
      explore(model, operations, (operation, outcome) => {
        possible.add(`${describe(operation, this.#model.targets)} → ${this.#spellAll(outcome, names)}`)
        return true
      })
    }
    this.#disagree(
      `No order of these leads to such answers. What could be:\n    ${[...possible].join('\n    ')}\n  There is${texts(found)}`,
    )
  }

  #disagree(why: string): never {
    throw new Disagreement(`\n  ${this.#history.join('\n  ')}\n  ${why}`)
  }
}

function outcomeOf(error: unknown): string {
  if (error === ABORTED) return 'aborted'
  if (error instanceof LeaseLostError) return 'lost'
  if (error instanceof NotHeldError) return 'not held'
  if (error instanceof SelfDeadlockError) return 'deadlock'
  if (error instanceof WaitTimeoutError) return 'refused'
  return `failed: ${error instanceof Error ? error.stack : String(error)}`
}

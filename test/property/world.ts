import { setTimeout as sleep } from 'node:timers/promises'
import { Patience, settlesWithin } from '../support/wait-until.js'
import { Callers } from './callers.js'
import { type Command, operationsOf } from './commands.js'
import { describe, kindOf, kindOfOutcome } from './describe-operation.js'
import { explore } from './explore.js'
import type { Kind, Row } from './kinds.js'
import type { Model } from './model.js'
import type { Operation, Spell } from './operations.js'
import { DUMP_SHA1, type Stage, type Tally } from './stage.js'

/** How soon a waiter acquires what is free. A waiter that was not woken polls after 4.5 s at the earliest. */
const SERVED_WITHIN_MS = 4_000
/** How soon any other call settles. */
const SETTLED_WITHIN_MS = 10_000
/** The same for a single try inside a write: up to `commandTimeoutMs`, here 20 s, it waits for a sibling that wants to read. */
const TRY_INSIDE_SETTLED_WITHIN_MS = 30_000
/** The same if a multi-lock waits, which keeps what it has for a while before it releases it; longer after each round. */
const JOINT_SERVED_WITHIN_MS = 10_000

function isTryInside(operation: Operation): boolean {
  if (operation.do !== 'take' || operation.how !== 'now') return false
  return operation.within !== undefined || operation.scope !== undefined
}

/** Redis and the clients do not do what the model does. */
class Disagreement extends Error {}

/** A state that agrees with everything seen, and the holders that it assigns to its leases. */
interface State {
  readonly model: Model
  readonly names: ReadonlyMap<string, string>
}

/** One sequence of operations, executed by the clients and by the model side by side. */
export class World {
  readonly #kind: Kind
  readonly #stage: Stage
  readonly #name: string
  readonly #tally: Tally
  readonly #history: string[] = []
  readonly #callers: Callers
  /** Not everything is visible, such as which of two waiters of one client is first. So there may be several. */
  #states: readonly State[]
  #lastId = 0

  constructor(kind: Kind, stage: Stage, name: string, tally: Tally) {
    this.#kind = kind
    this.#stage = stage
    this.#name = name
    this.#tally = tally
    this.#states = [{ model: kind.model(), names: new Map() }]
    this.#callers = new Callers(kind, stage, name)
  }

  /** @throws {Disagreement} with what happened until then */
  async run(commands: readonly Command[]): Promise<void> {
    this.#callers.watch()
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
      this.#callers.unwatch()
      await this.#stage.admin.del(`redisson_lock_token:{${this.#name}}`)
    }
  }

  /** Releases everything; then nothing may be left, in Redis or in the clients. */
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

  /** After a failure: it must not affect the next sequence. */
  async #cleanUp(): Promise<void> {
    await this.#callers.giveUp()
    await settlesWithin(this.#stage.quiet(), 2_000).catch(() => {})
    for (const { leases } of this.#stage.contexts) for (const lost of [...leases]) lost.loseAll('gone')
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
    const started = operations.map((operation) => this.#callers.start(operation, this.#model))
    const withinMs = operations.some(isTryInside) ? TRY_INSIDE_SETTLED_WITHIN_MS : SETTLED_WITHIN_MS
    const settled = await settlesWithin(Promise.all(started), withinMs).catch(() => undefined)
    if (settled?.status === 'rejected') throw settled.reason
    const outcomes =
      settled?.value ?? (await Promise.all(started.map((outcome) => Promise.race([outcome, 'not settled']))))
    for (const [index, line] of lines.entries()) {
      this.#history[line] += ` → ${outcomes[index]}`
      this.#tally.count(`${kindOf(operations[index] as Operation)} → ${kindOfOutcome(outcomes[index] as string)}`)
    }
    const fits = (operation: Operation, outcome: string, { names }: State): boolean => {
      if (operation.do === 'take' && operation.how === 'wait') return true
      const result = outcomes[operations.indexOf(operation)] as string
      // The holders are listed in any order.
      const sorted = (text: string): string => (operation.do === 'inspect' ? text.split(' ').sort().join(' ') : text)
      return sorted(this.#spellAll(outcome, names)) === sorted(result)
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
    // Other sequences share this thread, and what could be takes seconds to explore at worst.
    using patience = new Patience(isJoint ? JOINT_SERVED_WITHIN_MS : waits.length > 0 ? SERVED_WITHIN_MS : 0)
    for (;;) {
      await this.#stage.quiet()
      const found = await this.#read()
      if (this.#keep(ends, found)) return
      if (ends.length === 0 || patience.isOver) this.#explain(before, operations, ends, found)
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
    if (!second) for (const [id, name] of first?.names ?? []) this.#callers.names.set(id, name)
    return true
  }

  get #model(): Model {
    return (this.#states[0] as State).model
  }

  /** What can be seen of Redis and the clients at one moment, as the model writes it. */
  async #read(): Promise<Map<string, string>> {
    for (;;) {
      const before = this.#callers.read()
      const { rows, now } = await this.#dump()
      const clients = this.#callers.read()
      // Otherwise a waiter was served in between.
      if (JSON.stringify([...before]) !== JSON.stringify([...clients])) continue
      // The order in which clients are woken is not part of the model, nor are replies kept for copies of a command.
      const locks = rows.filter(({ key }) => !/^holdfast_(turn_queue|idempotency):/.test(key))
      const keys = Object.entries(this.#kind.read(locks, this.#name, now))
      return new Map([...keys.map(([key, content]) => [`key ${key}`, content] as const), ...clients])
    }
  }

  async #dump(): Promise<{ rows: readonly Row[]; now: number }> {
    const reply = await this.#stage.admin.evalsha(DUMP_SHA1, 0, `*${this.#name}*`, this.#kind.databases)
    const [[seconds, micros], ...keys] = reply as [[string, string], ...[number, string, string, number, string[]][]]
    const rows = keys.map(([database, key, type, ttlMs, content]) => {
      return {
        database,
        key: this.#callers.relabel(key),
        type,
        ttlMs,
        content: content.map((word) => this.#callers.relabel(word)),
      }
    })
    return { rows, now: Number(seconds) * 1_000 + Number(micros) / 1_000 }
  }

  /** The holders with which a state of the model agrees with what was found; undefined if it does with none. */
  #namesIn(
    end: Model,
    found: ReadonlyMap<string, string>,
    known: ReadonlyMap<string, string>,
  ): Map<string, string> | undefined {
    if ([...known].some(([id, name]) => (this.#callers.names.get(id) ?? name) !== name)) return undefined
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
      return `(c${this.#callers.clientOf.get(id.split('/')[0] as string)}[a-c]?:[\\w:]+)`
    })
    const match = new RegExp(`^${pattern.join('')}$`).exec(found)
    for (const [index, id] of ids.entries()) if (match) names.set(id, match[index + 1] as string)
    return match !== null
  }

  /** @param names  holders by name */
  #spell(names?: ReadonlyMap<string, string>): Spell {
    return (lease) => this.#callers.names.get(lease) ?? names?.get(lease) ?? `#${lease}`
  }

  #spellAll(text: string, names?: ReadonlyMap<string, string>): string {
    return text.replace(/#([\w/]+)/g, (_, id: string) => this.#spell(names)(id))
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
      `No order of these leads to such results. What could be:\n    ${[...possible].join('\n    ')}\n  There is${texts(found)}`,
    )
  }

  #disagree(why: string): never {
    throw new Disagreement(`\n  ${this.#history.join('\n  ')}\n  ${why}`)
  }
}

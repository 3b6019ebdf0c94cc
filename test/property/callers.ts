import { AsyncLocalStorage } from 'node:async_hooks'
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
import { STRANGER } from './cells-model.js'
import { type Kind, leaseText, STRANGER_HOLDER } from './kinds.js'
import type { Model } from './model.js'
import { type Caller, isTry, type Operation, type Take } from './operations.js'
import type { Stage } from './stage.js'

const SOON_MS = 3
const LONG_MS = 60_000
const UUID = /[\da-f]{8}-[\da-f-]{27}/g
const ABORTED = new Error('aborted by the test')

/** The callers of one sequence: they execute operations by the clients, and report what can be seen of these. */
export class Callers {
  readonly #kind: Kind
  readonly #stage: Stage
  readonly #name: string
  readonly #holds = new Map<string, Hold>()
  readonly #fates = new Map<string, string>()
  readonly #waits = new Map<string, AbortController>()
  /** How often each hold was reported lost. */
  readonly #reported = new Map<Hold, number>()
  readonly #warnings: unknown[] = []
  /** The holders of leases, as far as they are known. */
  readonly names = new Map<string, string>([[STRANGER, STRANGER_HOLDER]])
  /** The caller, which distinguishes the places of several in a queue. */
  readonly clientOf = new Map<string, number>()
  /** The labels of client ids, and the other way round. */
  readonly #labels = new Map<string, string>()
  readonly #ids = new Map<string, string>()
  readonly #scopes: (<T>(fn: () => T) => T)[] = []

  constructor(kind: Kind, stage: Stage, name: string) {
    this.#kind = kind
    this.#stage = stage
    this.#name = name
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

  watch(): void {
    for (const client of this.#stage.clients.flat()) client.on('lost', this.#onLost).on('warning', this.#onWarning)
  }

  unwatch(): void {
    for (const client of this.#stage.clients.flat()) client.off('lost', this.#onLost).off('warning', this.#onWarning)
  }

  /** Aborts all waits and releases all holds, as far as that works. */
  async giveUp(): Promise<void> {
    for (const controller of this.#waits.values()) controller.abort(ABORTED)
    await Promise.all([...this.#holds.values()].map((hold) => hold.unlock().catch(() => {})))
  }

  /** Starts an operation before it returns; resolves to the result. */
  async start(operation: Operation, model: Model): Promise<string> {
    if ('id' in operation) this.clientOf.set(operation.id, operation.client + 1)
    try {
      return await this.#do(operation, model)
    } catch (error) {
      return outcomeOf(error)
    }
  }

  /** What can be seen of the clients. */
  read(): Map<string, string> {
    const found = new Map<string, string>()
    for (const [id, hold] of [...this.#holds]) {
      for (const member of hold.lease.members ?? []) this.#holds.set(`${id}/${this.#cellOf(member)}`, member)
    }
    for (const [id, hold] of this.#holds) found.set(`hold ${id}`, this.#stateOf(id, hold))
    for (const [id, fate] of this.#fates) found.set(`wait ${id}`, fate)
    for (const warning of this.#warnings) found.set('warning', String(warning))
    return found
  }

  relabel(text: string): string {
    return text.replace(UUID, (id) => this.#labels.get(id) ?? id)
  }

  readonly #onLost = ({ hold }: { hold: Hold }): void =>
    void this.#reported.set(hold, (this.#reported.get(hold) ?? 0) + 1)
  readonly #onWarning = (warning: Error & { code?: string }): void => {
    // The stages of all kinds of locks are open at once.
    if (warning.code !== 'MANY_CLIENTS') this.#warnings.push(warning)
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

  #stateOf(id: string, hold: Hold): string {
    const { count, lostError, fencingToken } = hold
    const reported = this.#reported.get(hold) ?? 0
    // The signals of the others are not checked.
    const isAborted = Number.parseInt(id, 10) % 2 === 0 ? hold.signal.aborted : lostError !== undefined
    if (count > 0) {
      const wrong = reported > 0 || isAborted ? ', but reported lost' : ''
      const holder = hold.lease.members === undefined ? `, as ${this.relabel(hold.holder)}` : ''
      return `live, 1 of ${count}${holder}${fencingToken === undefined ? '' : `, token ${fencingToken}`}${wrong}`
    }
    if (lostError) {
      return `lost${reported === 1 ? '' : `, reported by ${reported} events`}${isAborted ? '' : ', but its signal did not abort'}`
    }
    return reported > 0 || isAborted ? 'released, but reported lost' : 'released'
  }

  async #do(operation: Operation, model: Model): Promise<string> {
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
        this.#waits.get(operation.waiter)?.abort(ABORTED)
        return 'ok'
      case 'force':
        return String(await this.#single(operation).forceUnlock())
      case 'hand over':
        this.#hold(operation.hold).handOver()
        return 'ok'
      case 'adopt': {
        const { id, from, leaseS } = operation
        const hold = await this.#single(operation).adopt(this.#holderOf(from), { leaseTimeMs: leaseS * 1_000 })
        return this.#granted(id, hold)
      }
      case 'inspect':
        return await this.#inspect(this.#single(operation))
      case 'inspect hold':
        return String(await this.#hold(operation.hold).isHeld())
      case 'inspect count':
        return String(await this.#in(operation, () => this.#single(operation).getHoldCount()))
      case 'renew':
        for (const client of this.#stage.clients[operation.client] ?? []) client.getLock('any').context.watchdog.audit()
        return 'ok'
      case 'expire':
        await this.#kind.expire(this.#stage.admin, this.#name, operation.what, (id) => this.#holderOf(id))
        return 'ok'
      case 'intrude':
        return await this.#intrude(operation.target, model)
    }
  }

  async #take(take: Take): Promise<string> {
    const { id, how, client, scope, target, leaseS, isRenewed, within } = take
    const lock = this.#lock(client, target)
    const isOdd = Number(id) % 2 === 1
    const controller = new AbortController()
    const options: LockOptions = { within: within === undefined ? undefined : this.#hold(within) }
    if (!isRenewed) options.leaseTimeMs = leaseS * 1_000
    if (how === 'soon') options.waitTimeMs = SOON_MS
    if (how === 'now' && isOdd) options.waitTimeMs = 0
    if (how === 'wait' && isOdd) options.waitTimeMs = LONG_MS
    if (how === 'wait' || how === 'abandon') options.signal = controller.signal
    const pending = this.#in({ client, scope }, () => (isTry(take) ? lock.tryLock(options) : lock.lock(options)))
    if (how === 'abandon') controller.abort(ABORTED)
    const outcome = pending.then(
      (hold) => (hold === null ? 'refused' : this.#granted(id, hold)),
      (error: unknown) => outcomeOf(error),
    )
    if (how !== 'wait') return await outcome
    this.#waits.set(id, controller)
    this.#fates.set(id, 'waiting')
    void outcome.then((fate) => this.#fates.set(id, fate))
    return 'started'
  }

  async #nest({ target, inner, leaseS, ...caller }: Operation & { do: 'nest' }): Promise<string> {
    const seen: string[] = []
    const [outerLock, innerLock] = [this.#lock(caller.client, target), this.#lock(caller.client, inner)]
    const options = { leaseTimeMs: leaseS * 1_000 }
    const outer = await this.#in(caller, () =>
      outerLock.tryWithLock(options, async (hold) => {
        seen.push(String(hold.count))
        const nested = await innerLock.tryWithLock(options, (hold) => void seen.push(String(hold.count)))
        if (!nested.ran) seen.push('refused')
      }),
    )
    return outer.ran ? seen.join(' ') : 'refused'
  }

  async #inspect(lock: Lock): Promise<string> {
    const [isLocked, holders, leftMs, token] = await Promise.all([
      lock.isLocked(),
      lock.getHolders(),
      lock.remainingLeaseMs(),
      (lock as Partial<FencedLock>).getToken?.(),
    ])
    const who = holders.map(({ holder, holdCount }) => `${this.relabel(holder)}×${holdCount}`).join(' ')
    const result = `${who || 'free'} ${leaseText(leftMs)}${token === undefined ? '' : `, token ${token}`}`
    return isLocked === holders.length > 0 ? result : `${result}, but isLocked() returns ${isLocked}`
  }

  async #intrude(target: number, model: Model): Promise<string> {
    if (model.holderAt(target) !== undefined) return 'false'
    await this.#kind.intrude(this.#stage.admin, this.#name, target)
    return 'true'
  }

  #granted(id: string, hold: Hold): string {
    this.#holds.set(id, hold)
    this.names.set(id, this.relabel(hold.holder))
    for (const member of hold.lease.members ?? []) {
      this.names.set(`${id}/${this.#cellOf(member)}`, this.relabel(member.holder))
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

  /** As in Redis. */
  #holderOf(lease: string): string {
    return (this.names.get(lease) as string).replace(/^\w+/, (label) => this.#ids.get(label) ?? label)
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

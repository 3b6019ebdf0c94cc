// Runs scripts: NOSCRIPT, command timeout, deadline.
import type { Acknowledgement, Fsync, RedisPort } from '../adapters/port.js'
import { timeRead } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import { CLOCK_TOLERANCE_MS, forCluster, inTime, TOO_LATE } from '../lua/variants.js'
import type { Clock } from '../util/clock.js'
import { nextTick } from '../util/real-time.js'
import { slotOf, tagOf } from '../wire/slots.js'
import { Admission } from './admission.js'
import { Batch, type Caller } from './batch.js'
import { Calls } from './calls.js'
import { Placement } from './placement.js'
import { RedisClocks } from './redis-clocks.js'
import { BAD_SCRIPT, isCrossSlot, isErrorOf, NoReplyError, notOurs, toInteger } from './replies.js'

/** How long to wait for the reply that tells which server has a key, ms. */
const LEARN_MS = 1_000
/** Maximum number of keys to remember per turn: enough to show that calls could be combined. */
const MAX_ALONE = 64
/** How often to send again what arrives too late. */
const MAX_SENDS = 3

export interface ScriptHooks {
  /** Once, if Redis refuses keys of different slots although it looked like a single server. */
  onCrossSlot?(error: unknown): void
  /** Once, if keys turn out to be on several servers although it looked like a single one. */
  onSeveralServers?(): void
  /** A call failed. */
  onError?(error: unknown): void
}

/**
 * Runs scripts: EVALSHA, EVAL after NOSCRIPT, and in any case an outcome within the command timeout.
 *
 * TCP, a proxy or the queue of a Redis client may deliver a command minutes later, to a server or from a process that knows
 * nothing of it any more. So a script that takes something carries the time at which it was sent by the clock of the server,
 * and does nothing if it arrives after its caller has stopped waiting.
 */
export class Scripts {
  /** Counts reconnects of the command connection: at each the Redis client may have sent a command twice. */
  reconnects = 0
  /** For how long after it was sent, on the clock, a command with a deadline may still run, ms. */
  readonly lateAfterMs: number
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #hooks: ScriptHooks
  readonly #calls: Calls
  readonly #clocks: RedisClocks
  /** Undefined if keys are certainly on one server, or go by their slots. */
  readonly #placement: Placement | undefined
  /** Limits calls for leases. */
  readonly admission: Admission
  readonly isCluster: boolean
  /** Whether keys go by their slots: in a cluster, and if Redis refused those of different ones although it looked like one server. */
  #goesBySlot: boolean
  /** The calls of this turn of the event loop. */
  #turn: Batch[] = []
  /** The first keys of those that were not combined in this turn, because they may be on different servers. */
  #alone: string[] = []
  #lastAlone: string | undefined
  #onIdle: (() => void) | undefined

  constructor(port: RedisPort, clock: Clock, timeoutMs: number, hooks: ScriptHooks = {}) {
    this.#port = port
    this.isCluster = port.isCluster ?? false
    this.#goesBySlot = this.isCluster
    if (!port.isCluster && !port.isOneServer) {
      const learnMs = Math.min(timeoutMs, LEARN_MS)
      this.#placement = new Placement(
        (words, key) => this.command(words, key, learnMs),
        clock,
        () => hooks.onSeveralServers?.(),
      )
    }
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.lateAfterMs = timeoutMs + CLOCK_TOLERANCE_MS
    this.#calls = new Calls(port, clock, timeoutMs)
    this.#hooks = hooks
    this.admission = new Admission(clock)
    this.#clocks = new RedisClocks(clock, async (key) =>
      this.learnTime(key, toInteger(await this.run(timeRead(key))) as number),
    )
  }

  /**
   * Runs a script. The calls of one turn of the event loop are sent at its end, those of the same script as one command (in a
   * cluster those on one lock): the command is much of the cost of a lock.
   * @param timeoutMs  how long to wait for the reply, ms; default the client's `commandTimeoutMs`
   * @param onSent  called when it is about to be sent, with the time on the clock
   * @throws {NoReplyError} no reply in time, or the connection failed
   * @throws the error reply of Redis, as the Redis client threw it
   */
  run(call: ScriptCall, timeoutMs = this.#timeoutMs, onSent?: (at: number) => void): Promise<unknown> {
    return new Promise((resolve, reject) =>
      this.submit(onSent ? { call, resolve, reject, onSent } : { call, resolve, reject }, timeoutMs),
    )
  }

  /**
   * The same for a caller that needs no promise, one of which costs as much as the bookkeeping of a command. Its callbacks run
   * in the asynchronous context of whoever shares the command.
   */
  submit(caller: Caller, timeoutMs = this.#timeoutMs, now = this.#clock.now()): void {
    this.admission.sent()
    if (this.#waitsForTime(caller.call, now)) void this.#whenTimeIsKnown(caller, timeoutMs)
    else this.#dispatch(caller, timeoutMs, now)
  }

  #dispatch(caller: Caller, timeoutMs: number, now: number): void {
    const { call } = caller
    const key = call.keys[0] as string
    const isAlone = this.#goesBySlot || (this.#placement !== undefined && !this.#placement.isWithOthers(key))
    if (isAlone) {
      if (!this.#goesBySlot) this.#learnLater(key)
      // A program that makes one call at a time has nothing to combine.
      if (this.admission.inFlight === 1) {
        caller.onSent?.(now)
        this.#send(new Batch(caller, timeoutMs, now), now)
        return
      }
    }
    const turn = this.#turn
    if (turn.length === 0) nextTick(this.#endTurn)
    for (let index = turn.length - 1; index >= 0; index--) {
      const batch = turn[index] as Batch
      if (batch.fits(call, timeoutMs, isAlone)) {
        if (batch.add(caller)) return
        break
      }
      if (isAlone || batch.touches(call)) break
    }
    turn.push(new Batch(caller, timeoutMs, now, isAlone))
  }

  /** The first command of a client that needs the time of the server waits for it, and so do those after it: in order. */
  #waitsForTime({ script, keys }: ScriptCall, now: number): boolean {
    const key = keys[0] as string
    if (script.expires) return !this.#clocks.isKnown(this.#serverOf(key), key, now)
    return this.#clocks.isReading && this.#clocks.isAwaited(this.#serverOf(key))
  }

  async #whenTimeIsKnown(caller: Caller, timeoutMs: number): Promise<void> {
    try {
      await this.locate(caller.call.keys[0] as string)
    } catch (error) {
      // An error reply may be about the key of another caller. Without the time Redis replies with it first.
      if (error instanceof NoReplyError) {
        this.#finished(1)
        return caller.reject(error)
      }
    }
    this.#dispatch(caller, timeoutMs, this.#clock.now())
  }

  /** The command connection was lost and is back. */
  reconnected(): void {
    this.reconnects++
    this.#placement?.reset()
  }

  /**
   * The route to the server that owns `key`. It changes after a reconnect, or when another server owns the key.
   * @returns undefined if the owner is not known yet, because the client has just been opened
   */
  routeTo(key: string): string | undefined {
    const server = this.#serverOf(key)
    return server === undefined ? undefined : `${this.reconnects} ${server}`
  }

  /** Finds the server that owns `key`: resolves when it has replied. @throws as `run` */
  async locate(key: string): Promise<void> {
    await this.#clocks.refresh(this.#serverOf(key), key)
  }

  /** The time at the server of `key`, epoch ms; undefined: not known. */
  timeAt(key: string, now = this.#clock.now()): number | undefined {
    const server = this.#serverOf(key)
    return server === undefined ? undefined : this.#clocks.timeAt(server, now)
  }

  /** @param time  of the server of `key`, epoch ms, in a reply that has just arrived */
  learnTime(key: string, time: number): void {
    const server = this.#serverOf(key)
    if (server !== undefined) this.#clocks.learn(server, time)
  }

  #serverOf(key: string): string | undefined {
    return this.#port.serverOf ? this.#port.serverOf(key) : ''
  }

  /**
   * Sends one command that may harmlessly be sent twice, such as EXISTS.
   * @throws as `run`
   */
  async command(words: readonly string[], key: string, timeoutMs = this.#timeoutMs): Promise<unknown> {
    return await this.#call(timeoutMs, () => this.#port.send(words, key))
  }

  /** The masters to which `commandAt` sends. Without a cluster there is one. */
  async masters(): Promise<readonly string[]> {
    const masters = this.#port.masters?.bind(this.#port)
    return masters ? await this.#call(this.#timeoutMs, masters) : ['']
  }

  /**
   * Sends one command that changes nothing to one of `masters()`, such as SCAN.
   * @throws as `run`
   */
  async commandAt(master: string, words: readonly string[]): Promise<unknown> {
    const { sendTo } = this.#port
    return await this.#call(this.#timeoutMs, () =>
      sendTo ? sendTo.call(this.#port, master, words) : this.#port.send(words, ''),
    )
  }

  /**
   * Waits until replicas have acknowledged all writes at the server of `key`.
   * @returns undefined if they cannot be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.acknowledge?.(key, timeoutMs))
  }

  /**
   * Waits until the server of `key` has fsynced all writes.
   * @returns undefined if the server cannot be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  fsynced(key: string, timeoutMs: number): Promise<Fsync | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.fsynced?.(key, timeoutMs))
  }

  /**
   * Keys of the same group may go in one command: in a cluster those of one slot, otherwise all, as far as they are known to
   * be on one server.
   */
  groupOf(key: string): number | string {
    if (this.#goesBySlot) return slotOf(key)
    return this.#isWithOthers(key) ? 0 : tagOf(key)
  }

  /** @throws {Error} these keys may no longer go in one command: the error of Redis Cluster, but nothing was sent */
  assertTogether(keys: readonly string[]): void {
    if (this.#areTogether(keys)) return
    throw new Error('CROSSSLOT the keys may be on different servers, so they were not sent in one command')
  }

  /**
   * Learns which of these keys are on one server, before their groups matter.
   * @returns undefined if there is nothing to learn; otherwise resolves after a second at most
   */
  learn(keys: readonly string[]): Promise<void> | undefined {
    return this.#goesBySlot ? undefined : this.#placement?.learn(keys)
  }

  #areTogether([first = '', ...others]: readonly string[]): boolean {
    if (!this.#placement) return !this.#goesBySlot || others.every((key) => slotOf(key) === slotOf(first))
    const group = this.groupOf(first)
    return others.every((key) => this.groupOf(key) === group)
  }

  #isWithOthers(key: string): boolean {
    return this.#placement?.isWithOthers(key) ?? true
  }

  get isIdle(): boolean {
    return this.admission.inFlight === 0
  }

  /** The client is closed. */
  close(): void {
    this.#calls.close()
  }

  /** Resolves when every command has received its reply or timed out. */
  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  readonly #endTurn = (): void => {
    const batches = this.#turn
    this.#turn = []
    const now = this.#clock.now()
    for (const batch of batches) {
      for (const caller of batch.callers) caller.onSent?.(now)
      this.#send(batch, now)
    }
  }

  /** Learns where this key is if, in this turn, there is another one with which it could have been combined. */
  #learnLater(key: string): void {
    // As long as nothing was learned, a program that uses one lock has nothing to combine.
    if (key === this.#lastAlone && !this.#placement?.isKnown) return
    this.#lastAlone = key
    if (this.#alone.length === 0) nextTick(this.#learnNow)
    if (this.#alone.length < MAX_ALONE) this.#alone.push(key)
  }

  readonly #learnNow = (): void => {
    const keys = this.#alone
    this.#alone = []
    const tag = tagOf(keys[0] as string)
    if (this.#placement?.isKnown || keys.some((key) => tagOf(key) !== tag)) void this.learn(keys)
  }

  #confirm<T>(timeoutMs: number, call: () => Promise<T>): Promise<T> {
    return this.#call(2 * timeoutMs + this.#timeoutMs, call) // another WAIT or WAITAOF may be ahead
  }

  async #call<T>(timeoutMs: number, call: () => Promise<T>): Promise<T> {
    this.admission.sent()
    try {
      const now = this.#clock.now()
      return await new Promise((resolve, reject) => this.#calls.within(timeoutMs, now, call, resolve, reject))
    } finally {
      this.#finished(1)
    }
  }

  #send(batch: Batch, now: number, withText = false): void {
    const { call, timeoutMs, callers } = batch
    const form = this.isCluster ? forCluster(call.script) : call.script
    const { expires } = form
    const script = expires ? inTime(form) : form
    const { keys, args } = call
    const key = keys[0] as string
    // Not with `push`, which makes room for many more.
    const command = new Array<string>(3 + keys.length + args.length + (expires ? 2 : 0))
    command[0] = withText ? 'EVAL' : 'EVALSHA'
    command[1] = withText ? script.text : script.sha1
    command[2] = String(keys.length)
    let at = 3
    for (let index = 0; index < keys.length; index++) command[at++] = keys[index] as string
    for (let index = 0; index < args.length; index++) command[at++] = String(args[index])
    if (expires) {
      command[at++] = String(this.timeAt(key, now) ?? 0)
      command[at] = String(timeoutMs)
    }
    this.#calls.within(
      timeoutMs,
      now,
      () => this.#port.send(command, key),
      (reply) => {
        const arrivedAt = expires ? whenTooLate(reply) : undefined
        if (arrivedAt !== undefined) return this.#sendAgain(batch, arrivedAt)
        const again = batch.resolve(reply)
        if (again === undefined) batch.reject(notOurs(reply))
        else if (again.length > 0) this.#sendEach(again, timeoutMs)
        this.#finished(callers.length - (again?.length ?? 0))
      },
      (error) => {
        if (!withText && isErrorOf(error, 'NOSCRIPT')) return this.#resend(batch, this.#clock.now(), true)
        if (call.keys.length > 1 && isCrossSlot(error)) this.#stopCombiningSlots(error)
        // Some of the keys were refused, or their combination, or the script that combines them: nothing ran.
        if (callers.length > 1 && (isCrossSlot(error) || isErrorOf(error, 'NOPERM', BAD_SCRIPT)))
          return this.#sendEach(callers, timeoutMs)
        this.#finished(callers.length)
        this.#hooks.onError?.(error)
        batch.reject(error)
      },
    )
  }

  /** It arrived too late, or the time at the server was not known: it has not run. Now that is known. */
  #sendAgain(batch: Batch, arrivedAt: number): void {
    const { call, timeoutMs, callers } = batch
    const now = this.#clock.now()
    this.learnTime(call.keys[0] as string, arrivedAt)
    if (batch.sends++ < MAX_SENDS && now - batch.madeAt < timeoutMs) {
      for (const caller of callers) caller.onSent?.(now)
      this.#resend(batch, now)
    } else {
      this.#finished(callers.length)
      batch.reject(new NoReplyError('it arrived at Redis too late, and did not run'))
    }
  }

  /** Sends calls together again, unless the connection has changed so that their keys may be on different servers. */
  #resend(batch: Batch, now: number, withText = false): void {
    const { callers, timeoutMs } = batch
    const keys = callers.map(({ call }) => call.keys[0] as string)
    if (callers.length === 1 || this.#areTogether(keys)) this.#send(batch, now, withText)
    else this.#sendEach(callers, timeoutMs)
  }

  #sendEach(callers: readonly Caller[], timeoutMs: number): void {
    const now = this.#clock.now()
    for (const caller of callers) this.#send(new Batch(caller, timeoutMs, now), now)
  }

  #stopCombiningSlots(error: unknown): void {
    if (this.#goesBySlot) return
    this.#goesBySlot = true
    this.#hooks.onCrossSlot?.(error)
  }

  #finished(calls: number): void {
    this.admission.finished(calls)
    if (this.#onIdle && this.isIdle) this.#onIdle()
  }
}

/** When a command arrived that was too late, by the clock of the server, epoch ms; undefined: it is another reply. */
function whenTooLate(reply: unknown): number | undefined {
  if (!Array.isArray(reply) || reply[0] !== TOO_LATE) return undefined
  const arrivedAt = Number(reply[1])
  return Number.isSafeInteger(arrivedAt) ? arrivedAt : undefined
}

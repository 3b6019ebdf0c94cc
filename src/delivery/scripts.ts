// Runs scripts: NOSCRIPT, command timeout, deadline.
import type { Acknowledgement, Fsync, RedisPort } from '../adapters/port.js'
import { messageOf } from '../errors.js'
import { timeRead } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import { CLOCK_TOLERANCE_MS, forCluster, inTime, TOO_LATE } from '../lua/variants.js'
import type { Clock } from '../util/clock.js'
import { nextTick } from '../util/real-time.js'
import { withoutSecrets } from '../util/secrets.js'
import { slotOf, tagOf } from '../wire/slots.js'
import { Admission } from './admission.js'
import { Batch, type Caller } from './batch.js'
import { Placement } from './placement.js'
import { RedisClocks } from './redis-clocks.js'
import { advised, BAD_SCRIPT, isCrossSlot, isErrorOf, NoReplyError, notOurs, toInteger } from './replies.js'

/** How long to wait for the answer to which server has a key, ms. */
const LEARN_MS = 1_000
/** After as many calls of one turn it is clear that there is something to combine. */
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
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #hooks: ScriptHooks
  readonly #clocks: RedisClocks
  /** Undefined if keys are certainly on one server, or go by their slots. */
  readonly #placement: Placement | undefined
  /** Limits calls for leases. */
  readonly admission: Admission
  /** Redis refused keys of different slots: there is a cluster behind what looks like one server. */
  #isCrossSlotRefused = false
  /** The calls of this turn of the event loop. */
  #turn: Batch[] = []
  /** The first keys of those that were sent at once in this turn, because they may be on different servers. */
  #alone: string[] = []
  #onIdle: (() => void) | undefined

  constructor(port: RedisPort, clock: Clock, timeoutMs: number, hooks: ScriptHooks = {}) {
    this.#port = port
    if (!port.isCluster && !port.isOneServer) {
      const askMs = Math.min(timeoutMs, LEARN_MS)
      this.#placement = new Placement(
        (command, key) => this.ask(command, key, askMs),
        clock,
        () => hooks.onSeveralServers?.(),
      )
    }
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#hooks = hooks
    this.admission = new Admission(clock)
    this.#clocks = new RedisClocks(clock, async (key) =>
      this.learnTime(key, toInteger(await this.run(timeRead(key))) as number),
    )
  }

  /**
   * Runs a script. The calls of one turn of the event loop are sent at its end, those of the same script as one command
   * (not in a cluster): much of what a lock costs Redis and its client is the command.
   * @param timeoutMs  how long to wait for the reply, ms; default the client's `commandTimeoutMs`
   * @param onSent  called when it is about to be sent, with the time on the clock
   * @throws {NoReplyError} no reply in time, or the connection failed
   * @throws the error reply of Redis, as the Redis client threw it
   */
  run(call: ScriptCall, timeoutMs = this.#timeoutMs, onSent?: (at: number) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const caller = { call, resolve, reject, onSent }
      this.admission.sent()
      if (this.#waitsForTime(call)) void this.#whenTimeIsKnown(caller, timeoutMs)
      else this.#dispatch(caller, timeoutMs)
    })
  }

  #dispatch(caller: Caller, timeoutMs: number): void {
    const { call } = caller
    const isWithOthers = !this.#goesBySlot && this.#isWithOthers(call.keys[0] as string)
    if (!isWithOthers) {
      if (!this.#goesBySlot) this.#learnLater(call.keys[0] as string)
      this.#sendAlone(caller, timeoutMs)
      return
    }
    const turn = this.#turn
    if (turn.length === 0) nextTick(this.#endTurn)
    for (let index = turn.length - 1; index >= 0; index--) {
      const batch = turn[index] as Batch
      if (batch.fits(call, timeoutMs)) {
        if (batch.add(caller)) return
        break
      }
      if (batch.touches(call)) break
    }
    turn.push(new Batch(caller, timeoutMs, this.#clock.now()))
  }

  /** The first command of a client that needs the time of the server waits for it, and so do those after it: in order. */
  #waitsForTime({ script, keys }: ScriptCall): boolean {
    const key = keys[0] as string
    const server = this.#serverOf(key)
    return script.expires ? !this.#clocks.isKnown(server, key) : this.#clocks.isAwaited(server)
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
    this.#dispatch(caller, timeoutMs)
  }

  /** The command connection was lost and is back. */
  reconnected(): void {
    this.reconnects++
    this.#placement?.forget()
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
    await this.#clocks.ask(this.#serverOf(key), key)
  }

  /** The time at the server of `key`, epoch ms; undefined: not known. */
  timeAt(key: string): number | undefined {
    const server = this.#serverOf(key)
    return server === undefined ? undefined : this.#clocks.timeAt(server)
  }

  /** @param time  of the server of `key`, epoch ms, in a reply that has just arrived */
  learnTime(key: string, time: number): void {
    const server = this.#serverOf(key)
    if (server !== undefined) this.#clocks.learn(server, time)
  }

  #serverOf(key: string): string | undefined {
    return this.#port.serverOf ? this.#port.serverOf(key) : ''
  }

  /** For how long after it was sent, on the clock, a command with a deadline may still run, ms. */
  get lateAfterMs(): number {
    return this.#timeoutMs + CLOCK_TOLERANCE_MS
  }

  /**
   * Sends one command that may be sent twice: it changes nothing, such as EXISTS, or the second one changes nothing more.
   * @throws as `run`
   */
  async ask(command: readonly string[], key: string, timeoutMs = this.#timeoutMs): Promise<unknown> {
    return await this.#call(timeoutMs, () => this.#port.send(command, key))
  }

  /** The masters to which `askAt` sends. Without a cluster there is one. */
  async masters(): Promise<readonly string[]> {
    const masters = this.#port.masters?.bind(this.#port)
    return masters ? await this.#call(this.#timeoutMs, masters) : ['']
  }

  /**
   * Sends one command that changes nothing to one of `masters()`, such as SCAN.
   * @throws as `run`
   */
  async askAt(master: string, command: readonly string[]): Promise<unknown> {
    const { sendTo } = this.#port
    return await this.#call(this.#timeoutMs, () =>
      sendTo ? sendTo.call(this.#port, master, command) : this.#port.send(command, ''),
    )
  }

  /**
   * Waits until replicas have acknowledged what was written at the server of `key`.
   * @returns undefined if they cannot be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.acknowledge?.(key, timeoutMs))
  }

  /**
   * Waits until what was written at the server of `key` has been fsynced there.
   * @returns undefined if the server cannot be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  fsynced(key: string, timeoutMs: number): Promise<Fsync | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.fsynced?.(key, timeoutMs))
  }

  get isCluster(): boolean {
    return this.#port.isCluster ?? false
  }

  /**
   * Keys of the same group may go in one command: in a cluster those of one slot, otherwise all, as far as they are known to
   * be on one server.
   */
  groupOf(key: string): number | string {
    if (this.#goesBySlot) return slotOf(key)
    return this.#isWithOthers(key) ? 0 : tagOf(key)
  }

  /** @throws {Error} these keys may no longer go in one command: as Redis Cluster says it, but nothing was sent */
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

  get #goesBySlot(): boolean {
    return this.isCluster || this.#isCrossSlotRefused
  }

  get isIdle(): boolean {
    return this.admission.inFlight === 0
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
      for (const { onSent } of batch.callers) onSent?.(now)
      this.#send(batch)
    }
  }

  #sendAlone(caller: Caller, timeoutMs: number): void {
    // Calls on one lock reach Redis in order.
    if (this.#turn.some((batch) => batch.touches(caller.call))) this.#endTurn()
    caller.onSent?.(this.#clock.now())
    this.#send(new Batch(caller, timeoutMs, this.#clock.now()))
  }

  /** Learns where this key is if, in this turn, there is another one with which it could have been combined. */
  #learnLater(key: string): void {
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
      return await new Promise((resolve, reject) => this.#within(timeoutMs, call, resolve, reject))
    } finally {
      this.#finished(1)
    }
  }

  #send(batch: Batch, withText = false): void {
    const { call, timeoutMs, callers } = batch
    const form = this.#port.isCluster ? forCluster(call.script) : call.script
    const script = form.expires ? inTime(form) : form
    const name = withText ? ['EVAL', script.text] : ['EVALSHA', script.sha1]
    const command = [...name, String(call.keys.length), ...call.keys, ...call.args.map(String)]
    if (form.expires) command.push(String(this.timeAt(call.keys[0] as string) ?? 0), String(timeoutMs))
    this.#within(
      timeoutMs,
      () => this.#port.send(command, call.keys[0] as string),
      (reply) => {
        const arrivedAt = form.expires ? whenTooLate(reply) : undefined
        if (arrivedAt !== undefined) return this.#sendAgain(batch, arrivedAt)
        const failed = batch.resolve(reply)
        if (!failed) batch.reject(notOurs(reply))
        this.#finished(callers.length - this.#sendEach(failed, timeoutMs))
      },
      (error) => {
        if (!withText && isErrorOf(error, 'NOSCRIPT')) return this.#resend(batch, true)
        if (call.keys.length > 1 && isCrossSlot(error)) this.#stopCombiningSlots(error)
        // Some of the keys were refused, or their combination, or the script that combines them: nothing ran.
        if (callers.length > 1 && (isCrossSlot(error) || isErrorOf(error, 'NOPERM', BAD_SCRIPT)))
          return void this.#sendEach(callers, timeoutMs)
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
      for (const { onSent } of callers) onSent?.(now)
      this.#resend(batch)
    } else {
      this.#finished(callers.length)
      batch.reject(new NoReplyError('it arrived at Redis too late, and did not run'))
    }
  }

  /** Sends calls together again, unless the connection has changed so that their keys may be on different servers. */
  #resend(batch: Batch, withText = false): void {
    const { callers, timeoutMs } = batch
    const keys = callers.map(({ call }) => call.keys[0] as string)
    if (callers.length === 1 || this.#areTogether(keys)) this.#send(batch, withText)
    else this.#sendEach(callers, timeoutMs)
  }

  #sendEach(callers: readonly Caller[] = [], timeoutMs: number): number {
    for (const caller of callers) this.#send(new Batch(caller, timeoutMs, this.#clock.now()))
    return callers.length
  }

  #stopCombiningSlots(error: unknown): void {
    if (this.#goesBySlot) return
    this.#isCrossSlotRefused = true
    this.#hooks.onCrossSlot?.(error)
  }

  #finished(calls: number): void {
    this.admission.finished(calls)
    if (this.isIdle) this.#onIdle?.()
  }

  #within<T>(
    timeoutMs: number,
    call: () => Promise<T>,
    resolve: (reply: T) => void,
    reject: (error: unknown) => void,
  ): void {
    let isDone = false
    const giveUp = (): void => {
      if (isDone) return
      isDone = true
      reject(new NoReplyError(this.#withConnectionError(`no reply within ${timeoutMs} ms`)))
    }
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and not been read yet.
    const cancel = this.#clock.after(timeoutMs, () => this.#clock.afterPoll(giveUp))
    callSafely(call).then(
      (reply) => {
        if (isDone) return
        isDone = true
        cancel()
        resolve(reply)
      },
      (raw: unknown) => {
        if (isDone) return
        isDone = true
        cancel()
        const error = advised(withoutSecrets(raw))
        if (this.#port.isErrorReply(error)) reject(error)
        else reject(new NoReplyError(this.#withConnectionError(messageOf(error)), { cause: error }))
      },
    )
  }

  /** Clients say that a command failed, and not why there is no connection. */
  #withConnectionError(message: string): string {
    const { connectionError } = this.#port
    const why = connectionError === undefined ? '' : messageOf(withoutSecrets(connectionError))
    return message.includes(why) ? message : `${message} (${why})`
  }
}

/** When a command arrived that was too late, by the clock of the server, epoch ms; undefined: it is another reply. */
function whenTooLate(reply: unknown): number | undefined {
  if (!Array.isArray(reply) || reply[0] !== TOO_LATE) return undefined
  const arrivedAt = Number(reply[1])
  return Number.isSafeInteger(arrivedAt) ? arrivedAt : undefined
}

/** Turns a synchronous throw of the Redis client into a rejection. */
function callSafely<T>(call: () => Promise<T>): Promise<T> {
  try {
    return call()
  } catch (error) {
    return Promise.reject(error)
  }
}

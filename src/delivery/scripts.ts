import type { Acknowledgement, Fsync, RedisPort } from '../adapters/port.js'
import { forCluster } from '../lua/forms.js'
import type { ScriptCall } from '../lua/script.js'
import type { Clock } from '../util/clock.js'
import { withoutSecrets } from '../util/secrets.js'
import { slotOf } from '../wire/slots.js'
import { Admission } from './admission.js'
import { Batch, type Caller } from './batch.js'
import { isErrorOf, NoReplyError, notOurs } from './replies.js'

/** Runs scripts: EVALSHA, EVAL when Redis forgot the script, and an answer within the command time-out in any case. */
export class Scripts {
  /** Counts the reconnects of the command connection. A client may then have sent a command twice. */
  reconnects = 0
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onCrossSlot: (error: unknown) => void
  /** Bounds what asks for leases. */
  readonly admission: Admission
  /** Keys of different slots were refused: a cluster stands behind what looks like one server. */
  #isCrossSlotRefused = false
  /** What this turn of the event loop has asked for. */
  #turn: Batch[] = []
  #onIdle: (() => void) | undefined

  /** @param onCrossSlot  called once, if Redis refuses keys of different slots although it is no cluster to the client */
  constructor(port: RedisPort, clock: Clock, timeoutMs: number, onCrossSlot: (error: unknown) => void = () => {}) {
    this.#port = port
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#onCrossSlot = onCrossSlot
    this.admission = new Admission(clock)
  }

  /**
   * What is asked for in one turn of the event loop leaves at its end. Calls of the same script go together, but in a
   * cluster: much of what a lock costs Redis and its client is the command.
   * @param timeoutMs  how long to wait for each reply, ms, from now; default the client's `commandTimeoutMs`
   * @param onSent  called when it is about to be sent, with the time on the clock
   * @throws {NoReplyError} no reply in time, or the connection failed
   * @throws Redis' own error reply as the client gave it
   */
  run(call: ScriptCall, timeoutMs = this.#timeoutMs, onSent?: (at: number) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const caller = { call, resolve, reject, onSent }
      this.admission.sent()
      if (this.#goesBySlot) {
        onSent?.(this.#clock.now())
        return this.#ask(new Batch(caller, timeoutMs))
      }
      const turn = this.#turn
      if (turn.length === 0) process.nextTick(this.#endTurn)
      for (let index = turn.length - 1; index >= 0; index--) {
        const batch = turn[index] as Batch
        if (batch.fits(call, timeoutMs)) {
          if (batch.add(caller)) return
          break
        }
        if (batch.touches(call)) break
      }
      turn.push(new Batch(caller, timeoutMs))
    })
  }

  /**
   * The way to the server that owns `key`: another one after a reconnect, or when another server owns it.
   * @returns undefined if it is not known yet who does: the client has just been opened
   */
  routeTo(key: string): string | undefined {
    const server = this.#port.serverOf ? this.#port.serverOf(key) : ''
    return server === undefined ? undefined : `${this.reconnects} ${server}`
  }

  /** Resolves when the server that owns `key` has replied, so that it is known, or within the command time-out. */
  async locate(key: string): Promise<void> {
    await this.#askPort(this.#timeoutMs, () => this.#port.send(['EXISTS', key], key)).catch(() => {})
  }

  /**
   * Let replicas acknowledge what was written where `key` is.
   * @returns undefined if they can not be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.acknowledge?.(key, timeoutMs))
  }

  /**
   * Wait until what was written where `key` is has been fsynced there.
   * @returns undefined if the server cannot be asked
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  fsynced(key: string, timeoutMs: number): Promise<Fsync | undefined> {
    return this.#confirm(timeoutMs, async () => await this.#port.fsynced?.(key, timeoutMs))
  }

  get isCluster(): boolean {
    return this.#port.isCluster ?? false
  }

  /** Keys of one script must have the same. Without a cluster all have. */
  slotOf(key: string): number {
    return this.#goesBySlot ? slotOf(key) : 0
  }

  get #goesBySlot(): boolean {
    return this.isCluster || this.#isCrossSlotRefused
  }

  get isIdle(): boolean {
    return this.admission.inFlight === 0
  }

  /** Resolves when every command was answered or given up. */
  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  readonly #endTurn = (): void => {
    const batches = this.#turn
    this.#turn = []
    const now = this.#clock.now()
    for (const batch of batches) {
      for (const { onSent } of batch.callers) onSent?.(now)
      this.#ask(batch)
    }
  }

  #confirm<T>(timeoutMs: number, ask: () => Promise<T>): Promise<T> {
    return this.#askPort(2 * timeoutMs + this.#timeoutMs, ask) // another WAIT or WAITAOF may be ahead
  }

  async #askPort<T>(withinMs: number, ask: () => Promise<T>): Promise<T> {
    this.admission.sent()
    try {
      return await new Promise((resolve, reject) => this.#within(withinMs, ask, resolve, reject))
    } finally {
      this.#settled(1)
    }
  }

  #ask(batch: Batch, isForgotten = false): void {
    const { call, timeoutMs, callers } = batch
    const script = this.#port.isCluster ? forCluster(call.script) : call.script
    const name = isForgotten ? ['EVAL', script.text] : ['EVALSHA', script.sha1]
    const command = [...name, String(call.keys.length), ...call.keys, ...call.args.map(String)]
    this.#within(
      timeoutMs,
      () => this.#port.send(command, call.keys[0] as string),
      (reply) => {
        const failed = batch.answer(reply)
        if (!failed) batch.fail(notOurs(reply))
        this.#settled(callers.length - this.#askEach(failed, timeoutMs))
      },
      (error) => {
        if (!isForgotten && isErrorOf(error, 'NOSCRIPT')) return this.#ask(batch, true)
        if (call.keys.length > 1 && isErrorOf(error, 'CROSSSLOT')) this.#refusedCrossSlot(error)
        // Some keys are refused, or their being together, and then nothing ran.
        if (callers.length > 1 && isErrorOf(error, 'NOPERM', 'CROSSSLOT')) return void this.#askEach(callers, timeoutMs)
        this.#settled(callers.length)
        batch.fail(error)
      },
    )
  }

  #askEach(callers: readonly Caller[] = [], timeoutMs: number): number {
    for (const caller of callers) this.#ask(new Batch(caller, timeoutMs))
    return callers.length
  }

  #refusedCrossSlot(error: unknown): void {
    if (this.#goesBySlot) return
    this.#isCrossSlotRefused = true
    this.#onCrossSlot(error)
  }

  #settled(calls: number): void {
    this.admission.answered(calls)
    if (this.isIdle) this.#onIdle?.()
  }

  #within<T>(
    timeoutMs: number,
    ask: () => Promise<T>,
    resolve: (reply: T) => void,
    reject: (error: unknown) => void,
  ): void {
    let isOver = false
    const giveUp = (): void => {
      if (isOver) return
      isOver = true
      reject(new NoReplyError(`no reply within ${timeoutMs} ms`))
    }
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and only needs to be read.
    const cancel = this.#clock.after(timeoutMs, () => this.#clock.afterPoll(giveUp))
    sent(ask).then(
      (reply) => {
        if (isOver) return
        isOver = true
        cancel()
        resolve(reply)
      },
      (raw: unknown) => {
        if (isOver) return
        isOver = true
        cancel()
        const error = withoutSecrets(raw)
        if (this.#port.isErrorReply(error)) reject(error)
        else reject(new NoReplyError(error instanceof Error ? error.message : String(error), { cause: error }))
      },
    )
  }
}

/** Also a client that throws has only failed. */
function sent<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return ask()
  } catch (error) {
    return Promise.reject(error)
  }
}

// Lets others ask this client: its inbox and its record.
import { publish } from '../delivery/publish.js'
import { isErrorOf } from '../delivery/replies.js'
import { toError } from '../errors.js'
import { ForcedMarks } from '../locks/breaking/apply-mark.js'
import { readNotice } from '../locks/breaking/mark.js'
import type { RecordedClient } from '../locks/context.js'
import type { LeaseContext } from '../locks/lease.js'
import { inspectionRefused } from '../warnings.js'
import { FIRST_TICK_MS } from '../watchdog/watchdog.js'
import { clientInfo, type Inspection } from './client-info.js'
import type { ClientInfo } from './lock-info.js'
import { type LongState, longState, ownState } from './own-state.js'
import { MAX_REPLY_BYTES, readRequest, writeStateReply, writeUnsupported } from './protocol.js'
import { deleteRecord, fetchRecord, writeRecord } from './record.js'

/** Later holds and waits that have lasted this long are in the record, ms: its client can be asked about the others. */
const LONG_MS = 10_000
/** How many holds, and waits, are in the record. */
const RECORD_LIMIT = 50
/** How often the record is written even if nothing changes, ms: a third of its TTL. */
const REFRESH_MS = 1_200_000
/**
 * Most replies per second, and how long they may take together, ms: requests can be forged, and 10,000 holds take 5 ms. The
 * first few count less, because a busy machine may suspend the process in the middle of one.
 */
const MAX_REPLIES = 20
const MAX_REPLY_MS = 20
const FIRST_REPLIES = 4
/** How long the last command of a client may take, ms. */
const LAST_MS = 1_000

/**
 * Lets others ask a client what it holds and waits for: a channel on which it is asked, and a record in Redis of who it is.
 * On the same channel the client learns that a holder of its own is to be interrupted.
 * It begins with the first subscription for a wait, on the same connection, or once something has been held for 1 s. A
 * client that does neither costs nothing. Losing any of it harms no lock.
 */
export class Presence {
  readonly #context: LeaseContext
  readonly #options: Inspection
  readonly #forcedMarks: ForcedMarks
  #info: ClientInfo | undefined
  /** What was held at this time on the clock stays in the record until it ends. */
  #describedAt = Number.NEGATIVE_INFINITY
  #isOver = false
  /** The holds and waits that are in the record. */
  #recorded = ''
  /** When the record was written last, on the clock; undefined: it has to be. */
  #writtenAt: number | undefined
  #cancelRefresh: (() => void) | undefined
  #repliesSince = Number.NEGATIVE_INFINITY
  #replies = 0
  #replyMs = 0

  constructor(context: LeaseContext, options: Inspection) {
    this.#context = context
    this.#options = options
    this.#forcedMarks = new ForcedMarks(context)
  }

  /** How this client describes itself. */
  get info(): ClientInfo {
    return this.#info ?? clientInfo(this.#context.clientId, this.#options)
  }

  /** Reads the record of another client. */
  async recordOf(clientId: string, timeoutMs: number): Promise<RecordedClient | undefined> {
    return this.#isOver ? undefined : await fetchRecord(this.#context.scripts, clientId, timeoutMs)
  }

  /** When the first channel has been subscribed to: from then on there is a connection for messages. Idempotent. */
  start(): void {
    if (!this.#info) this.describe(FIRST_TICK_MS)
  }

  /** Describes this client now, with what it has held for some time, ms. */
  describe(heldMs: number): void {
    if (this.#isOver) return
    this.#context.inbox.keepOpen()
    // Nobody could ask it, so that to others it would look as if it had died.
    if (this.#context.inbox.isRefused) return
    this.#info ??= clientInfo(this.#context.clientId, this.#options)
    this.#describedAt = this.#context.clock.now() - heldMs
    this.#write()
  }

  /** After a reconnect: Redis may have lost its data, or this may be another server. */
  renew(): void {
    if (this.#info && !this.#isOver) this.#write()
  }

  /** Redis denies what it needs. @param error  undefined: the client has reported that already */
  refused(error: unknown): void {
    if (this.#isOver) return
    this.#end()
    if (error !== undefined) this.#context.emit('warning', inspectionRefused(error))
  }

  /** Deletes the record, and leaves the channel. Nobody waits for the reply of Redis except the shutdown. */
  close(): void {
    if (!this.#isOver) this.#end()
  }

  #end(): void {
    this.#isOver = true
    this.#cancelRefresh?.()
    if (!this.#info) return
    const { inbox, scripts, clientId, commandTimeoutMs } = this.#context
    inbox.release()
    // It may fail: the record expires by itself.
    deleteRecord(scripts, clientId, Math.min(LAST_MS, commandTimeoutMs)).catch(() => {})
  }

  /** Something is held. @returns when to look again, ms */
  tick(): number {
    if (this.#isOver) return Number.POSITIVE_INFINITY
    if (!this.#info) {
      if (!this.#longState(FIRST_TICK_MS).hasHolds) return FIRST_TICK_MS
      this.start()
      return LONG_MS
    }
    const long = this.#longState()
    if (long.fingerprint !== this.#recorded || this.#isDue) this.#write(long)
    return LONG_MS
  }

  get #isDue(): boolean {
    return this.#writtenAt === undefined || this.#context.clock.now() - this.#writtenAt >= REFRESH_MS
  }

  #longState(heldMs = LONG_MS): LongState {
    const since = Math.max(this.#context.clock.now() - heldMs, this.#describedAt)
    return longState(this.#context, since, RECORD_LIMIT)
  }

  #write(long = this.#longState()): void {
    const { clock, scripts } = this.#context
    this.#recorded = long.fingerprint
    this.#writtenAt = clock.now()
    this.#cancelRefresh?.()
    this.#cancelRefresh = clock.after(REFRESH_MS, () => this.#write(), false)
    writeRecord(scripts, this.#info as ClientInfo, long.describe()).catch((error: unknown) => {
      this.#writtenAt = undefined
      this.#failed(error)
    })
  }

  /** A message for the inbox that is an object in JSON. */
  receive(text: string): void {
    if (this.#isOver || text.length > MAX_REPLY_BYTES) return
    const marked = readNotice(text)
    if (marked) this.#forcedMarks.notified(marked)
    else if (!this.#isFlooded()) this.#reply(readRequest(text))
  }

  #reply(request: ReturnType<typeof readRequest>): void {
    if (!request) return
    const { clientId, clock, scripts } = this.#context
    const startedAt = clock.now()
    this.#replies++
    const reply =
      'unknown' in request
        ? writeUnsupported(clientId, request.unknown)
        : writeStateReply({ ...ownState(this.#context, request), nonce: request.nonce })
    publish(scripts, request.reply, reply).catch((error: unknown) => this.#failed(error))
    this.#replyMs += clock.now() - startedAt
  }

  /** Whether it has replied enough for this second. */
  #isFlooded(): boolean {
    const now = this.#context.clock.now()
    if (now - this.#repliesSince >= 1_000) {
      this.#repliesSince = now
      this.#replies = 0
      this.#replyMs = 0
    }
    return this.#replies >= (this.#replyMs >= MAX_REPLY_MS ? FIRST_REPLIES : MAX_REPLIES)
  }

  /** Anything but a refusal passes, and the next tick, reconnect or request tries again. */
  #failed(error: unknown): void {
    if (isErrorOf(error, 'NOPERM')) this.refused(toError(error))
  }
}

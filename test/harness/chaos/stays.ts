import { report } from '../../support/processes/child.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import type { Access, Entered, Found, Left } from './messages.js'
import type { GuardedRecord } from './record.js'

/** What a section needs to know of what it holds. A `Hold` of Holdfast is one. */
export interface Held {
  readonly signal: AbortSignal
  remainingMs(): number
  readonly fencingToken?: bigint | undefined
  /** Writes even if the hold was lost: the record has to refuse that. */
  readonly isReckless?: boolean
  /** Of a control: the record does not see the token. */
  readonly isUnchecked?: boolean
}

/** A permit without a lease is held until it is released. */
const WITHOUT_LEASE_MS = 3_600_000
/** How often the process checks that what it is told about its holds can be true, ms. */
const HEARTBEAT_MS = 25

interface Options {
  readonly record: GuardedRecord
  readonly leaseMs: number
  random(n: number): number
  find(finding: Omit<Found, 'at' | 'to'>): void
}

/** The sections of one process: what it believes to hold, and what it does there. */
export class Stays {
  readonly #options: Options
  readonly #held = new Map<Held, { readonly lock: string; readonly from: number }>()
  readonly #heart: NodeJS.Timeout
  #beatAt = monotonicMs()
  #serial = 0

  constructor(options: Options) {
    this.#options = options
    this.#heart = setInterval(() => this.#beat(), HEARTBEAT_MS)
  }

  /**
   * Stays inside for a while, as long as the hold lasts, and records it. As users are told to, it reads the signal and the
   * remaining time before it writes, and has the record check the token, if there is one.
   */
  readonly stay = async (
    kind: string,
    locks: readonly string[],
    hold: Held | undefined,
    how?: 'shared' | 'nested',
    holdMs = this.#anyTime(),
  ): Promise<void> => {
    const { record } = this.#options
    const from = monotonicMs()
    const leftMs = (): number => (hold ? (hold.signal.aborted ? 0 : hold.remainingMs()) : WITHOUT_LEASE_MS)
    const left = leftMs()
    if (left <= 0) return
    // Only what was read before the lease was read is certain: the process may be stopped in between.
    let validUntil = from + left
    const id = `${process.pid}:${++this.#serial}`
    // A nested hold has the token of the outer one.
    const token = hold?.fencingToken === undefined || how === 'nested' ? '' : String(hold.fencingToken)
    const entered: Entered = { at: 'enter', id, kind, locks, from, validUntil, isShared: how === 'shared' }
    report(token === '' ? entered : { ...entered, token })
    if (hold) this.#held.set(hold, { lock: locks[0] as string, from })
    const shown = hold?.isUnchecked ? '' : token
    const read = hold && how !== 'nested' ? await record.read(locks, shown) : undefined
    let to = monotonicMs()
    while (to < from + holdMs && leftMs() > 0) {
      validUntil = Math.max(validUntil, monotonicMs() + leftMs())
      await sleep(Math.min(10, from + holdMs - to))
      // Not only by its timer: after a pause this may be over before that is due.
      this.#beat()
      to = monotonicMs()
    }
    let access: Access | undefined
    if (hold && read && (leftMs() > 0 || hold.isReckless)) access = await this.#write(locks, shown, read, leftMs)
    to = monotonicMs()
    const rest = leftMs()
    if (rest > 0) validUntil = to + rest
    if (hold) this.#held.delete(hold)
    const leaving: Left = { at: 'leave', id, to: Math.min(to, validUntil), ...(access ? { access } : {}) }
    report(leaving)
  }

  #anyTime(): number {
    const { random } = this.#options
    return random(20) === 0 ? 50 + random(400) : random(12)
  }

  end(): void {
    clearInterval(this.#heart)
  }

  async #write(
    locks: readonly string[],
    token: string,
    read: { readonly positions: readonly number[]; readonly values: readonly number[] },
    leftMs: () => number,
  ): Promise<Access> {
    const next = read.values.map((value) => value + 1)
    const written = await this.#options.record.write(locks, token, next)
    return {
      first: read.positions,
      last: written?.positions ?? [],
      isAccepted: written !== undefined,
      isCertain: leftMs() > 0,
      isOverwriting: written?.values.some((value, at) => value !== read.values[at]) ?? false,
    }
  }

  /**
   * After a pause longer than any lease nothing can be held: no renewal was sent meanwhile, and none may revive what is
   * lost.
   */
  #beat(): void {
    const now = monotonicMs()
    const pauseMs = now - this.#beatAt
    const pausedAt = this.#beatAt
    this.#beatAt = now
    if (pauseMs <= this.#options.leaseMs) return
    for (const [hold, { lock, from }] of this.#held) {
      const remainingMs = hold.signal.aborted ? 0 : hold.remainingMs()
      if (from < pausedAt && remainingMs > 0) {
        const what = `${lock}: still held after a pause of ${Math.round(pauseMs)} ms, ${Math.round(remainingMs)} ms left`
        this.#options.find({ verdict: 'dishonest', lock, what, from })
      }
    }
  }
}

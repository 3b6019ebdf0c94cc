/** The one sampler behind all pages, streams and scrapes of a dashboard. */
import { messageOf } from '../errors.js'
import { confirm, type Deadlocks, deadlocksIn, suspectedIn } from '../fleet/deadlocks.js'
import { type Doubt, mergeDoubts } from '../fleet/doubts.js'
import type { JobInfo } from '../fleet/job-info.js'
import { type ClientState, countWaiters, type LockInfo, type LockList } from '../fleet/lock-info.js'
import { isBreakable } from '../fleet/lock-keys.js'
import type { AuditEntry, ForceOutcome } from '../locks/breaking/audit.js'
import type { Clock } from '../util/clock.js'
import { defined } from '../util/defined.js'
import { withoutSecrets } from '../util/secrets.js'
import type { History, LockDetail, LockRow, Outage, Totals } from './api.js'
import { idOf, isUnchanged, type Reading, rowOf } from './rows.js'
import { Timeline } from './timeline.js'
import { type Sampled, TotalsHistory, totalsOf } from './totals.js'

/** The part of `client.fleet` that the dashboard uses. */
export interface FleetSource {
  locks(options?: { contended?: boolean; limit?: number }): LockList
  inspect(name: string): Promise<LockInfo>
  /** Missing in the types of a published client, where it is internal. */
  mayForceUnlock?(name: string): Promise<boolean | undefined>
  clients(): Promise<readonly ClientState[]>
  jobs(): Promise<readonly JobInfo[]>
  audit(): Promise<readonly AuditEntry[]>
  forceUnlock(
    name: string,
    options: {
      holder: string
      graceMs?: number
      reason: string
      by: string
      anyway: boolean
      quarantineMs?: number
    },
  ): Promise<{
    readonly outcome: ForceOutcome
    readonly holder?: { readonly holder: string }
  }>
}

/** The differences between two samples. */
export interface Difference {
  readonly changed: readonly LockRow[]
  readonly removed: readonly string[]
  readonly totals: Totals
  readonly outage?: Outage
}

const PERIOD_MS = 1_000
const IDLE_MS = 60_000
/** The longest silence: a page takes a longer one for the end of the server. */
const BEAT_MS = 2_000
const MAX_LOCKS = 2_000
/** Maximum number of locks that a sample inspects one by one. */
const MAX_INSPECTED = 50
/** How often the clients are asked for their losses. */
const LOSSES_PERIOD_MS = 10_000
const NO_LOSSES = { losses: 0, silentClients: 0 }
const NONE: Deadlocks = { cycles: [], suspected: [], doubts: [] }

interface Tracked {
  /** The last reading. */
  reading: Reading
  /** The reading that the pages have: older than `reading` as long as nothing but its durations has changed. */
  sent: Reading
  /** When each present holder was first seen. */
  readonly seenAt: Map<string, number>
  readonly timeline: Timeline
}

/**
 * Samples the fleet once a second while somebody listens, and for a minute afterwards; then it forgets everything.
 * A sample reads all locks if that is quick. Among millions of keys it is not: then it takes at most a fifth of the
 * time, and the samples in between read the contended locks and those that seem to be over.
 */
export class Sampler {
  readonly #fleet: FleetSource
  readonly #clock: Clock
  readonly #tracked = new Map<string, Tracked>()
  readonly #history = new TotalsHistory()
  readonly #listeners = new Set<(difference: Difference) => void>()
  /** Resolves with the first sample after a start. */
  #first: Promise<void> | undefined
  #cancel: (() => void) | undefined
  #cancelBeat: (() => void) | undefined
  #usedAt = 0
  #nextScanAt = 0
  #isTruncated = false
  #deadlocks = NONE
  /** The contended locks of the last sample. */
  #contended: LockInfo[] = []
  #nextLossesAt = 0
  #losses = NO_LOSSES
  /** Of the last sample, and the keys that the last one of all locks could not read. */
  #doubts: readonly Doubt[] = []
  #hidden: readonly Doubt[] = []
  #totals = totalsOf([], { deadlocks: 0, newHolds: 0, ...NO_LOSSES, isTruncated: false, doubts: [] })
  /** When the last sample was read. */
  #readAt = 0
  /** Of the samples since then; undefined: there was none that failed. */
  #failure: { readonly since: number; readonly error: string } | undefined
  #isClosed = false

  constructor(fleet: FleetSource, clock: Clock) {
    this.#fleet = fleet
    this.#clock = clock
  }

  /** Starts sampling, or keeps it going for another minute. Rejects if the first sample fails. */
  async ready(): Promise<void> {
    if (this.#isClosed) throw new Error('the dashboard is closed')
    this.#usedAt = this.#clock.now()
    this.#first ??= this.#start()
    await this.#first
  }

  get totals(): Totals {
    return this.#totals
  }

  /** undefined: the last sample could be read */
  get outage(): Outage | undefined {
    if (!this.#failure) return undefined
    const now = this.#clock.now()
    const { since, error } = this.#failure
    return { sinceAgoMs: now - since, readAgoMs: now - this.#readAt, error }
  }

  get deadlocks(): Deadlocks {
    return this.#deadlocks
  }

  get locks(): LockInfo[] {
    return [...this.#tracked.values()].map(({ reading }) => reading.info)
  }

  /** The locks, with the age of their oldest holds. */
  get sampled(): Sampled[] {
    return [...this.#tracked.values()].map(({ reading: { info, at }, seenAt }) => {
      const ages = info.holders.map(({ holder, heldMs }) => heldMs ?? at - (seenAt.get(holder) ?? at))
      return { info, oldestMs: Math.max(0, ...ages) }
    })
  }

  history(): History {
    return this.#history.columns(this.#clock.now())
  }

  rows(): LockRow[] {
    return [...this.#tracked.values()].map((tracked) => this.#rowOf(tracked))
  }

  /** The whole name of a sampled lock. */
  nameOf(id: string): string | undefined {
    return this.#tracked.get(id)?.reading.info.name
  }

  /** Reads one lock, sampled or not. */
  async detail(name: string): Promise<LockDetail> {
    const [info, may] = await Promise.all([this.#fleet.inspect(name), this.#fleet.mayForceUnlock?.(name)])
    const now = this.#clock.now()
    const tracked = this.#tracked.get(idOf(name))
    const seenMs = (holder: string): number => now - (tracked?.seenAt.get(holder) ?? now)
    return {
      lock: rowOf(info, 0, seenMs),
      timeline: tracked?.timeline.read(now) ?? [],
      mayBreak: may !== false && isBreakable(info.kind),
    }
  }

  /** @returns ends it */
  listen(listener: (difference: Difference) => void): () => void {
    this.#listeners.add(listener)
    this.#beat()
    return () => {
      if (this.#listeners.delete(listener)) this.#usedAt = this.#clock.now()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#stop()
  }

  async #start(): Promise<void> {
    try {
      await this.#read(true)
    } catch (error) {
      this.#stop()
      throw error
    }
    this.#schedule(0)
  }

  #stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#cancelBeat?.()
    this.#first = undefined
    this.#nextScanAt = 0
    this.#nextLossesAt = 0
    this.#contended = []
    this.#deadlocks = NONE
    this.#failure = undefined
    this.#tracked.clear()
    this.#history.clear()
  }

  async #sample(): Promise<void> {
    const startedAt = this.#clock.now()
    let difference: Difference
    let tookMs = 0
    try {
      difference = await this.#read()
      this.#failure = undefined
      tookMs = this.#clock.now() - startedAt
    } catch (error) {
      this.#failure = { since: this.#failure?.since ?? startedAt, error: messageOf(withoutSecrets(error)) }
      difference = this.#nothing()
    }
    this.#tell(difference)
    this.#schedule(tookMs)
  }

  #tell(difference: Difference): void {
    for (const listener of [...this.#listeners]) listener(difference)
    this.#beat()
  }

  /** While Redis does not reply, or a sample takes long for another reason. */
  #beat(): void {
    this.#cancelBeat?.()
    const hasListeners = this.#listeners.size > 0 && !this.#isClosed
    if (hasListeners) this.#cancelBeat = this.#clock.after(BEAT_MS, () => this.#tell(this.#nothing()), false)
  }

  #nothing(): Difference {
    return { changed: [], removed: [], totals: { ...this.#totals, newHolds: 0 }, ...defined({ outage: this.outage }) }
  }

  /** @param tookMs  what the last sample took: sampling takes half of the time at most */
  #schedule(tookMs: number): void {
    const isIdle = this.#listeners.size === 0 && this.#clock.now() - this.#usedAt >= IDLE_MS
    if (this.#isClosed || isIdle) this.#stop()
    else this.#cancel = this.#clock.after(Math.max(PERIOD_MS - tookMs, tookMs), () => void this.#sample(), false)
  }

  async #read(isFirst = false): Promise<Difference> {
    const [found] = await Promise.all([this.#find(), this.#readLosses()])
    const changed: LockRow[] = []
    const removed: string[] = []
    let newHolds = 0
    for (const [id, reading] of found) {
      if (!reading) {
        if (this.#tracked.delete(id)) removed.push(id)
        continue
      }
      const known = this.#tracked.get(id)
      const tracked = known ?? { reading, sent: reading, seenAt: new Map<string, number>(), timeline: new Timeline() }
      tracked.reading = reading
      this.#tracked.set(id, tracked)
      newHolds += updateSeen(tracked, reading)
      tracked.timeline.update(reading.info, reading.at)
      if (known && isUnchanged(tracked.sent, reading)) continue
      tracked.sent = reading
      changed.push(this.#rowOf(tracked))
    }
    await this.#findDeadlocks(found)
    const counts = { deadlocks: this.#deadlocks.cycles.length, newHolds: isFirst ? 0 : newHolds, ...this.#losses }
    const { doubts } = this.#deadlocks
    this.#totals = totalsOf(this.sampled, { ...counts, isTruncated: this.#isTruncated, doubts })
    this.#readAt = this.#clock.now()
    this.#history.add(this.#readAt, this.#totals)
    return { changed, removed, totals: this.#totals }
  }

  async #readLosses(): Promise<void> {
    const now = this.#clock.now()
    if (now < this.#nextLossesAt) return
    this.#nextLossesAt = now + LOSSES_PERIOD_MS
    const clients = await this.#fleet.clients()
    const known = clients.flatMap(({ lossesLastHour }) => lossesLastHour ?? [])
    this.#losses = {
      losses: known.reduce((sum, losses) => sum + losses, 0),
      silentClients: clients.length - known.length,
    }
  }

  /** The locks of this sample, by id; undefined: it is free now. */
  async #find(): Promise<Map<string, Reading | undefined>> {
    const startedAt = this.#clock.now()
    const isScan = startedAt >= this.#nextScanAt
    const found = new Map<string, Reading | undefined>()
    let isTruncated = false
    const locks = this.#fleet.locks({ contended: !isScan, limit: MAX_LOCKS + 1 })
    for await (const info of locks) {
      if (found.size >= MAX_LOCKS) isTruncated = true
      else found.set(idOf(info.name), { info, at: this.#clock.now() })
    }
    this.#doubts = locks.doubts
    if (isScan) {
      this.#hidden = locks.doubts.filter(({ about }) => about === 'hidden-locks')
      this.#isTruncated = isTruncated
      const now = this.#clock.now()
      this.#nextScanAt = now + 4 * (now - startedAt)
    }
    const missing = [...this.#tracked].filter(([id]) => !found.has(id))
    if (isScan && !isTruncated) for (const [id] of missing) found.set(id, undefined)
    else await this.#inspect(missing, found)
    return found
  }

  /** Reads those again that may be over although nobody reported it. */
  async #inspect(missing: readonly [string, Tracked][], found: Map<string, Reading | undefined>): Promise<void> {
    const now = this.#clock.now()
    const doubtful = missing.filter(
      ([, { reading }]) => countWaiters(reading.info) > 0 || now - reading.at >= reading.info.remainingLeaseMs,
    )
    const inspect = async ([id, { reading }]: [string, Tracked]): Promise<void> => {
      const info = await this.#fleet.inspect(reading.info.name)
      const isFree = info.holders.length === 0 && countWaiters(info) === 0
      found.set(id, isFree ? undefined : { info, at: this.#clock.now() })
    }
    await Promise.all(doubtful.slice(0, MAX_INSPECTED).map(inspect))
  }

  /** Keeps the deadlocks of two samples. If there are new ones, it takes the second sample at once. */
  async #findDeadlocks(found: ReadonlyMap<string, Reading | undefined>): Promise<void> {
    const contended = [...found.values()].flatMap((reading) =>
      reading && countWaiters(reading.info) > 0 ? [reading.info] : [],
    )
    const lasting = confirm(this.#contended, contended)
    const isMore =
      deadlocksIn(contended).length > lasting.cycles.length || suspectedIn(contended).length > lasting.suspected.length
    const deadlocks = isMore ? confirm(contended, await this.#resample()) : lasting
    this.#deadlocks = { ...deadlocks, doubts: mergeDoubts(this.#hidden, this.#doubts) }
    this.#contended = contended
  }

  async #resample(): Promise<LockInfo[]> {
    const locks: LockInfo[] = []
    for await (const info of this.#fleet.locks({ contended: true, limit: MAX_LOCKS })) locks.push(info)
    return locks
  }

  #rowOf({ sent, seenAt }: Tracked): LockRow {
    const now = this.#clock.now()
    return rowOf(sent.info, now - sent.at, (holder) => sent.at - (seenAt.get(holder) ?? sent.at))
  }
}

/** @returns how many holders are new */
function updateSeen({ seenAt }: Tracked, { info, at }: Reading): number {
  const present = new Set(info.holders.map(({ holder }) => holder))
  for (const holder of seenAt.keys()) if (!present.has(holder)) seenAt.delete(holder)
  const before = seenAt.size
  for (const holder of present) if (!seenAt.has(holder)) seenAt.set(holder, at)
  return seenAt.size - before
}

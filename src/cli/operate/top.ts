// `holdfast top`.
import { type Doubt, mergeDoubts } from '../../fleet/doubts.js'
import type { LockInfo } from '../../fleet/lock-info.js'
import { durationOf } from '../../util/duration-text.js'
import { clockTime } from '../local-time.js'
import { sorted, summaryLines, summaryOf, tableOfLocks } from './list.js'
import { repeat } from './repeat.js'
import type { FleetView, Session } from './view.js'

/** How often all locks are listed, ms; in between only those with waiters, and those that are shown. */
const LIST_EVERY_MS = 30_000
/** Maximum number of locks that are inspected again in between. */
const MAX_INSPECTED = 40

/** `holdfast top`: the contended and the oldest locks, refreshed until a signal arrives. @returns the exit code */
export async function top(session: Session): Promise<number> {
  const { options, terminal, now } = session
  const sample = new Sample(session)
  let height = 0
  const refresh = async (): Promise<void> => {
    const locks = await sample.next()
    const { doubts } = sample
    if (options.json) return terminal.printJson({ at: new Date(now()).toISOString(), locks, doubts })
    const isRedrawn = terminal.isTerminal && !options.once
    const most = isRedrawn ? terminal.liveRows : locks.length
    const all = [
      ...summaryLines(summaryOf(locks, doubts), terminal, `${clockTime(now())}  `),
      ...tableOfLocks(locks.slice(0, most), terminal, (lock) => sample.seenSince(lock)),
    ]
    if (!isRedrawn) return terminal.print(...all, ...(options.once ? [] : ['']))
    const lines = all.slice(0, terminal.liveRows)
    height = Math.max(height, lines.length)
    terminal.redraw([...lines, ...Array<string>(height - lines.length).fill('')])
  }
  if (options.once) await refresh()
  else await repeat(session, refresh)
  terminal.keep()
  return 0
}

/** The known locks, kept up to date at little cost. */
class Sample {
  readonly #fleet: FleetView
  readonly #session: Session
  #locks = new Map<string, LockInfo>()
  /** Of the last list, and the keys that the last list of all locks could not read. */
  #doubts: readonly Doubt[] = []
  #hidden: readonly Doubt[] = []
  #listedAt = Number.NEGATIVE_INFINITY
  /** Since when each hold of unknown age has been seen, by lock and holder. */
  #firstSeen = new Map<string, number>()

  constructor(session: Session) {
    this.#fleet = session.fleet
    this.#session = session
  }

  async next(): Promise<LockInfo[]> {
    if (performance.now() - this.#listedAt >= LIST_EVERY_MS) await this.#list()
    else await this.#update()
    const seen = new Map<string, number>()
    for (const lock of this.#locks.values()) {
      const key = keyOf(lock)
      seen.set(key, this.#firstSeen.get(key) ?? performance.now())
    }
    this.#firstSeen = seen
    return sorted([...this.#locks.values()], 'waiters')
  }

  /** What the sample does not say. */
  get doubts(): readonly Doubt[] {
    return mergeDoubts(this.#hidden, this.#doubts)
  }

  seenSince(lock: LockInfo): string {
    return `>${durationOf(performance.now() - (this.#firstSeen.get(keyOf(lock)) ?? performance.now()))}`
  }

  async #list(): Promise<void> {
    this.#locks = await this.#read(false)
    this.#listedAt = performance.now()
  }

  async #update(): Promise<void> {
    const contended = await this.#read(true)
    const shown = sorted([...this.#locks.values()], 'waiters').filter(({ name }) => !contended.has(name))
    const { timeoutMs } = this.#session.options
    const again = await Promise.all(
      shown.slice(0, MAX_INSPECTED).map(async ({ name }) => await this.#fleet.inspect(name, { timeoutMs })),
    )
    for (const lock of again) {
      if (lock.holders.length + lock.waiters.length > 0) this.#locks.set(lock.name, lock)
      else this.#locks.delete(lock.name)
    }
    for (const [name, lock] of contended) this.#locks.set(name, lock)
  }

  async #read(contended: boolean): Promise<Map<string, LockInfo>> {
    const { subject, timeoutMs } = this.#session.options
    const locks = new Map<string, LockInfo>()
    const found = this.#fleet.locks({ match: subject || undefined, contended, timeoutMs })
    for await (const lock of found) locks.set(lock.name, lock)
    this.#doubts = found.doubts
    if (!contended) this.#hidden = found.doubts.filter(({ about }) => about === 'hidden-locks')
    return locks
  }
}

function keyOf({ name, holders }: LockInfo): string {
  return `${name} ${holders[0]?.holder}`
}

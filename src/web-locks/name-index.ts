// The list of names that query() reads, in Redis.
import { toWords } from '../delivery/replies.js'
import type { Context } from '../locks/context.js'
import { runScript } from '../locks/inspection.js'
import { webLocksList, webLocksRecord } from '../lua/generated.js'
import { WEB_LOCKS_KEY } from '../wire/keys.js'

/** How long a name stays listed, ms, unless it is recorded again. */
const TTL_MS = 10 * 60_000
/** How often the names in use are recorded, ms. */
const PERIOD_MS = TTL_MS / 4
/** How many names Redis lists, and how many this client remembers to have recorded. */
const MAX_NAMES = 10_000
/** Names may be long. */
const PAGE = 200
/** The list, in errors. */
const LIST = { name: 'client.locks', key: WEB_LOCKS_KEY }

/** Lists the locks that this client requests, holds or waits for among those of all clients. */
export class NameIndex {
  readonly #context: Context
  /** When they were recorded last, on the clock. */
  readonly #recordedAt = new Map<string, number>()
  /** How many requests each has. */
  readonly #used = new Map<string, number>()
  readonly #recording = new Set<Promise<unknown>>()
  #cancelTimer: (() => void) | undefined

  constructor(context: Context) {
    this.#context = context
  }

  /** A request begins. Without rights to the list it works all the same, and `list` rejects. */
  begin(key: string): void {
    this.#used.set(key, (this.#used.get(key) ?? 0) + 1)
    const recordedAt = this.#recordedAt.get(key) ?? Number.NEGATIVE_INFINITY
    if (this.#context.clock.now() - recordedAt >= PERIOD_MS) this.#record(key)
    this.#cancelTimer ??= this.#context.clock.after(PERIOD_MS, () => this.#renew(), false)
  }

  end(key: string): void {
    const left = (this.#used.get(key) ?? 0) - 1
    if (left > 0) this.#used.set(key, left)
    else this.#used.delete(key)
    if (this.#used.size > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  /**
   * The keys of the locks of all clients.
   * @throws as `client.locks.query`
   */
  async list(): Promise<Set<string>> {
    await Promise.allSettled(this.#recording)
    const keys = new Set<string>()
    for (let skipped = 0; skipped < MAX_NAMES; skipped += PAGE) {
      const call = webLocksList(WEB_LOCKS_KEY, skipped, PAGE)
      const page = await runScript(this.#context, LIST, 'query', call, toWords)
      for (const key of page) keys.add(key)
      if (page.length < PAGE) break
    }
    for (const key of this.#used.keys()) keys.add(key) // Redis may have lost the list
    return keys
  }

  #record(key: string): void {
    if (this.#recordedAt.size >= MAX_NAMES) this.#recordedAt.clear()
    this.#recordedAt.set(key, this.#context.clock.now())
    const recording: Promise<unknown> = this.#context.scripts
      .run(webLocksRecord(WEB_LOCKS_KEY, key, TTL_MS, MAX_NAMES))
      .then(
        () => this.#recording.delete(recording),
        () => {
          this.#recording.delete(recording)
          this.#recordedAt.delete(key)
        },
      )
    this.#recording.add(recording)
  }

  #renew(): void {
    this.#cancelTimer = this.#context.clock.after(PERIOD_MS, () => this.#renew(), false)
    for (const key of this.#recordedAt.keys()) if (!this.#used.has(key)) this.#recordedAt.delete(key)
    for (const key of this.#used.keys()) this.#record(key)
  }
}

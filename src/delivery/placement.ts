// Whether one server has all keys, before they are combined.
import { randomUuid } from '../platform.js'
import type { Clock } from '../util/clock.js'
import { tagOf } from '../wire/slots.js'

/**
 * Tells which server runs it: the id of its current run; empty if the user may not know. It is routed like any script, by
 * its key, which it does not touch.
 */
export const WHO_RUNS_THIS = `local info = redis.pcall('info', 'server')
return type(info) == 'string' and info:match('run_id:(%w+)') or ''`

/** How many hash tags are tried: a shard that has one key in ten is missed once in 700,000 tries, one of half never. */
const TAGS = 128
/** Once this many prefixes of names are on one server, there is no other server. */
const MAX_PREFIXES = 200
/** Only this much of a name is compared. In UTF-16 units. */
const MAX_LENGTH = 64
/** How long to wait before asking again without a reply, ms. */
const AGAIN_MS = 5_000

/**
 * Learns whether one server has all keys, so that those of different hash tags may go in one command. A proxy such as
 * twemproxy looks like one server, but sends a command to the shard of its first key, where the lock of another key would
 * be taken beside the one on its own shard.
 *
 * Learned once per connection, before keys are combined for the first time: for a number of hash tags, since proxies
 * distribute by a hash, and for each prefix of names (`order:` of `order:1001`), since some route by that.
 */
export class Placement {
  readonly #command: (words: readonly string[], key: string) => Promise<unknown>
  readonly #clock: Pick<Clock, 'now'>
  readonly #onSeveral: () => void
  /** The one that has all keys that were tried. */
  #server: string | undefined
  #isOne = false
  #areSeveral = false
  #hasReported = false
  readonly #prefixes = new Set<string>()
  #learning: Promise<void> | undefined
  #againAt = 0
  #connection = 0

  /** @param onSeveral  called once, when keys turn out to be on several servers */
  constructor(
    command: (words: readonly string[], key: string) => Promise<unknown>,
    clock: Pick<Clock, 'now'>,
    onSeveral: () => void,
  ) {
    this.#command = command
    this.#clock = clock
    this.#onSeveral = onSeveral
  }

  /** Whether this key is on the same server as all others for which this is true. */
  isWithOthers(key: string): boolean {
    return this.#isOne || (this.#server !== undefined && this.#prefixes.has(prefixOf(key)))
  }

  /** Whether something was learned already: then a new prefix of names is worth a question. */
  get isKnown(): boolean {
    return this.#server !== undefined
  }

  /**
   * Learns whether these keys are on one server, and on the same as others.
   * @returns undefined if there is nothing to ask; otherwise resolves when that has ended, and never rejects
   */
  learn(keys: readonly string[]): Promise<void> | undefined {
    if (this.#isOne || this.#areSeveral || this.#clock.now() < this.#againAt) return this.#learning
    const unknown = new Map<string, string>()
    for (const key of keys) {
      const prefix = prefixOf(key)
      if (!this.#prefixes.has(prefix)) unknown.set(prefix, key)
    }
    if (unknown.size === 0 || this.#learning !== undefined) return this.#learning
    const learning = this.#learn(unknown).finally(() => {
      if (this.#learning === learning) this.#learning = undefined
    })
    this.#learning = learning
    return learning
  }

  /** The connection is a new one, and may lead elsewhere. */
  reset(): void {
    this.#connection++
    this.#server = undefined
    this.#isOne = false
    this.#areSeveral = false
    this.#prefixes.clear()
    this.#learning = undefined
    this.#againAt = 0
  }

  async #learn(unknown: ReadonlyMap<string, string>): Promise<void> {
    const connection = this.#connection
    const keys = [...unknown.values()].slice(0, MAX_PREFIXES)
    const others = this.#server === undefined ? otherTags(keys[0] as string) : []
    const runs = await Promise.all([...keys, ...others].map((key) => this.#serverOf(key)))
    if (connection !== this.#connection) return
    const servers = new Set(runs)
    if (this.#server !== undefined) servers.add(this.#server)
    if (servers.delete('')) this.#againAt = this.#clock.now() + AGAIN_MS
    if (servers.size > 1) {
      this.#areSeveral = true
      this.#server = undefined
      if (!this.#hasReported) this.#onSeveral()
      this.#hasReported = true
    } else if (this.#againAt <= this.#clock.now()) {
      this.#server = runs[0]
      for (const key of keys) this.#prefixes.add(prefixOf(key))
      this.#isOne = this.#prefixes.size >= MAX_PREFIXES
    }
  }

  /** Empty if there is no reply. */
  async #serverOf(key: string): Promise<string> {
    try {
      return String(await this.#command(['EVAL', WHO_RUNS_THIS, '1', key], key))
    } catch {
      return ''
    }
  }
}

/** The prefix of a name: what comes before the first digit. */
function prefixOf(key: string): string {
  const digit = key.search(/\d/)
  return key.slice(0, digit === -1 ? MAX_LENGTH : Math.min(digit, MAX_LENGTH))
}

/** Keys with other hash tags that the user may access like this one: ACL rules allow what begins like it. */
export function otherTags(key: string): string[] {
  const salt = randomUuid().slice(0, 8)
  const hasTag = tagOf(key) !== key
  const start = hasTag ? key.slice(0, key.indexOf('}')) : key.slice(0, MAX_LENGTH)
  return Array.from({ length: TAGS }, (_, n) => (hasTag ? `${start}${salt}${n}}` : `${start}{${salt}${n}}`))
}

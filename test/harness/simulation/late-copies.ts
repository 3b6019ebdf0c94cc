import { sha1Of } from '../../../src/platform.js'
import { knownScript } from '../../../src/testing/memory-redis.js'
import type { FakeRedis } from '../../support/fakes/fake-redis.js'
import { type Held, heldIn } from './holders.js'
import { COMMAND_TIMEOUT_MS } from './link.js'
import type { World } from './world.js'

/** A copy that arrives later than this is of a call that is over, ms after it was sent: clocks drift. */
const LATE_AFTER_MS = 2 * COMMAND_TIMEOUT_MS
/** What such a copy takes for nobody is given back within this, ms. */
const UNDONE_WITHIN_MS = 1_000

/** A command that arrives once more, or for the first time, when nobody expects it. */
export interface Copy {
  /** Its script and keys. */
  readonly what: string
  /** Ms on the clock of the world. */
  readonly sentAt: number
  /** Where it arrives; undefined: at the master of that time. */
  readonly server: FakeRedis | undefined
  readonly command: readonly string[]
  arrive(): unknown
}

/** What is in Redis, as far as copies must not change it. */
interface Sight {
  readonly held: ReadonlyMap<string, Held>
  readonly counters: readonly unknown[]
}

/**
 * Copies of commands that were never answered, or that a Redis client sent again: they arrive at any later time, also after
 * their caller, its lease and its client are gone.
 */
export class LateCopies {
  readonly #world: World
  /** Names of semaphores without leases and of latches. */
  readonly #counters: readonly string[]
  /** By counter: when the call that created the present one began, ms on the clock of the world. */
  readonly #createdAt = new Map<string, number>()
  /** Commands that Redis has carried out, and how often they have changed a counter. */
  readonly #carriedOut = new WeakSet<readonly string[]>()
  readonly #counted = new WeakMap<readonly string[], number>()
  #pending = 0
  /** How many have arrived. */
  arrived = 0

  constructor(world: World, counters: readonly string[]) {
    this.#world = world
    this.#counters = counters
  }

  /** Copies, and checks after them, that are still to come. */
  get pending(): number {
    return this.#pending
  }

  /** @param beganAt  when the call that created it began */
  created(counter: string, beganAt: number): void {
    this.#createdAt.set(counter, beganAt)
  }

  add(copy: Copy, afterMs: number): void {
    this.#after(afterMs, () => this.#arrive(copy))
  }

  /** Carries out a command, and remembers what it did. */
  carryOut<T>(command: readonly string[], what: () => string, server: FakeRedis, run: () => T): T {
    const isRepeated = this.#carriedOut.has(command)
    // A replica also does what it got from its master meanwhile.
    const before = isRepeated && !this.#world.replicaSet ? heldIn(server) : undefined
    const counters = this.#countersOf(server)
    const reply = run()
    this.#carriedOut.add(command)
    const isCounted = this.#countersOf(server).some((value, index) => value !== counters[index])
    if (isCounted) this.#counted.set(command, (this.#counted.get(command) ?? 0) + 1)
    if (before) this.#checkNames(`a copy of ${what()}`, command, before, heldIn(server))
    return reply
  }

  /** What is freed again is what the command names. */
  #checkNames(
    name: string,
    command: readonly string[],
    before: ReadonlyMap<string, Held>,
    after: ReadonlyMap<string, Held>,
  ): void {
    for (const [key, { resource, holder }] of before) {
      if (after.has(key) || command.some((word) => word.includes(holder))) continue
      this.#world.fail(`${name} freed ${resource} of ${holder}, whom it does not name`)
    }
  }

  #after(ms: number, action: () => void): void {
    this.#pending++
    this.#world.clock.after(ms, () => {
      this.#pending--
      action()
    })
  }

  #arrive(copy: Copy): void {
    const world = this.#world
    const lateMs = world.clock.now() - copy.sentAt
    const wasCarriedOut = this.#carriedOut.has(copy.command)
    // Of calls that were sent together, some may count later than others.
    const wasCounted = (this.#counted.get(copy.command) ?? 0) >= callsIn(copy.command)
    world.note(`⎘ a copy of ${copy.what}, sent ${Math.round(lateMs)} ms ago`)
    this.arrived++
    const before = this.#look(copy)
    ignored(copy.arrive)
    const after = this.#look(copy)
    const name = `a late copy of ${copy.what} (sent ${Math.round(lateMs)} ms before)`
    for (const [key, { resource, holder, endsAt }] of before.held) {
      const left = after.held.get(key)
      if (left && left.endsAt >= endsAt) continue
      if (world.beliefs.isCertain(resource, holder))
        this.#world.fail(`${name} ${left ? 'shortened the lease' : 'freed the lock'} of ${holder}: ${resource}`)
      if (left && wasCarriedOut) this.#world.fail(`${name} shortened a lease once more: ${resource} of ${holder}`)
    }
    this.#checkNames(name, copy.command, before.held, after.held)
    for (const [key, held] of after.held) if (!before.held.has(key)) this.#taken(name, key, held, copy, lateMs)
    // A failover may lose what was counted, with the record that it was.
    if (!world.replicaSet) this.#checkCounters(name, before, after, { copy, lateMs, wasCounted })
  }

  #taken(name: string, key: string, held: Held, copy: Copy, lateMs: number): void {
    if (lateMs < LATE_AFTER_MS) return
    this.#after(UNDONE_WITHIN_MS, () => {
      const { resource, holder } = held
      if (this.#look(copy).held.has(key) && !this.#isOwned(holder))
        this.#world.fail(`${name} took ${resource} for nobody: ${holder} has it for more than ${UNDONE_WITHIN_MS} ms`)
    })
  }

  #checkCounters(
    name: string,
    before: Sight,
    after: Sight,
    { copy, lateMs, wasCounted }: { readonly copy: Copy; readonly lateMs: number; readonly wasCounted: boolean },
  ): void {
    for (const [index, counter] of this.#counters.entries()) {
      const [was, is] = [before.counters[index], after.counters[index]]
      if (was === is) continue
      const change = `${counter} from ${was} to ${is}`
      if (wasCounted) this.#world.fail(`${name} counted once more: ${change}`)
      const createdAt = this.#createdAt.get(counter) ?? Number.NEGATIVE_INFINITY
      // What is in doubt and counts once may still count, and is tried again as long as it may.
      const isDeleted = was !== undefined && copy.what.includes('/delete ')
      if (isDeleted && copy.sentAt < createdAt && lateMs >= LATE_AFTER_MS)
        this.#world.fail(`${name} deleted what was created later: ${change}`)
    }
  }

  /** Whether a client has it, or a call of that client still waits or asks, and may come to have it. */
  #isOwned(holder: string): boolean {
    return this.#world.processes.some(({ clients }) =>
      clients.some((client) => {
        const { context } = client.getLock('a')
        const isIts = holder.startsWith(`${client.id}:`)
        if (isIts && context.waitQueues.size > 0) return true
        if ([...context.attempts].some(({ lease }) => lease.holder === holder)) return true
        return [...context.leases].some(
          (lease) => lease.isLive && (lease.holder === holder || lease.kind.permitIds?.includes(holder) === true),
        )
      }),
    )
  }

  #look({ server = this.#world.redis }: Copy): Sight {
    return { held: heldIn(server), counters: this.#countersOf(server) }
  }

  #countersOf({ keyspace }: FakeRedis): readonly unknown[] {
    if (this.#counters.length > 0) keyspace.tick()
    return this.#counters.map((counter) => keyspace.content(counter)?.value)
  }
}

/** How many calls were sent together. */
function callsIn([verb, source = '', count = '', ...words]: readonly string[]): number {
  const script = knownScript(verb === 'EVAL' ? sha1Of(source) : source)
  return script?.isBatch ? Number(count) / Number(words[Number(count)]) : 1
}

/** Nobody reads its reply. */
function ignored(run: () => unknown): void {
  try {
    Promise.resolve(run()).catch(() => {})
  } catch {
    // an error reply
  }
}

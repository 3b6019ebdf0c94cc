import type { Dice } from '../../support/dice.js'
import type { Node } from './node.js'

/** How long an acknowledgement is on its way, ms. */
const ACKNOWLEDGED_AFTER_MS = 2

/** What a master sends to one replica, in order, and when it arrives there. Nothing happens until somebody looks. */
export class ReplicationStream {
  readonly #master: Node
  readonly #replica: Node
  readonly #dice: Dice
  readonly #isSlow: () => boolean
  /** When each of the master's writes arrives, ms on the clock. */
  readonly #arrivals: number[]
  #closedAt = Number.POSITIVE_INFINITY
  #lagsUntil = 0

  /** @param syncedAt  when the replica has what the master has already, ms on the clock */
  constructor(master: Node, replica: Node, dice: Dice, isSlow: () => boolean, syncedAt: number) {
    this.#master = master
    this.#replica = replica
    this.#dice = dice
    this.#isSlow = isSlow
    this.#arrivals = master.writes.map(() => syncedAt)
  }

  /** The master wrote something. */
  add(now: number): void {
    const dice = this.#dice
    const lagMs = this.#isSlow() && dice.chance(0.1) ? dice.between(5, 300) : dice.between(1, 4)
    this.#arrivals.push(Math.max(now + lagMs, this.#lagsUntil, this.#arrivals.at(-1) ?? 0))
  }

  /** Whether the replica is still there. */
  get isOpen(): boolean {
    return this.#closedAt === Number.POSITIVE_INFINITY
  }

  lag(untilMs: number): void {
    this.#lagsUntil = untilMs
  }

  close(now: number): void {
    this.#closedAt = Math.min(this.#closedAt, now)
  }

  /** The replica carries out what has arrived. */
  advance(now: number): void {
    const until = Math.min(now, this.#closedAt)
    const { writes } = this.#replica
    while ((this.#arrivals[writes.length] ?? Number.POSITIVE_INFINITY) <= until)
      this.#replica.repeat(this.#master.writes[writes.length] as Node['writes'][number])
  }

  /** When the master knows that the replica has the first `offset` writes, ms on the clock; never: Infinity. */
  acknowledgedAt(offset: number): number {
    const arrival = offset === 0 ? 0 : (this.#arrivals[offset - 1] ?? Number.POSITIVE_INFINITY)
    return arrival <= this.#closedAt ? arrival + ACKNOWLEDGED_AFTER_MS : Number.POSITIVE_INFINITY
  }
}

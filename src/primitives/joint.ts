import { ConfigError, LeaseLostError, NotHeldError } from '../errors.js'
import type { Context } from './context.js'
import { Hold, type Holding } from './hold.js'

/**
 * What stands behind a hold on several locks: the holds on them, of which a certain number must live. Each is renewed by
 * the watchdog of its own client.
 */
export class Joint implements Holding {
  readonly context: Context
  readonly lockName: string
  readonly noun = 'Lock'
  readonly members: Hold[]
  readonly hold: Hold
  readonly fencingToken = undefined
  readonly tracesHolds = false
  readonly #needed: number
  /** How many of its locks may stay taken without keeping others out. */
  readonly #dispensable: number

  /**
   * @param members  at least one
   * @param locks  how many there are in all
   */
  constructor(
    context: Context,
    lockName: string,
    members: readonly Hold[],
    needed: number,
    locks: number,
    label: string | undefined,
  ) {
    this.context = context
    this.lockName = lockName
    this.members = []
    this.#needed = needed
    this.#dispensable = locks - needed
    this.hold = new Hold(this, label)
    for (const member of members) this.add(member)
  }

  /** One more of its locks was taken. */
  add(member: Hold): void {
    this.members.push(member)
    member.onEnd = () => this.notice(this.hold)
  }

  /** Those of its members. */
  get holder(): string {
    return this.members.map(({ holder }) => holder).join(', ')
  }

  get ownerId(): number {
    return (this.members[0] as Hold).ownerId
  }

  get count(): number {
    return 1
  }

  remainingMs(): number {
    const left = this.members.map((member) => member.remainingMs()).sort((a, b) => b - a)
    return left[this.#needed - 1] ?? 0
  }

  notice(hold: Hold): void {
    if (this.members.filter((member) => member.isLive).length >= this.#needed) return
    const lost = this.members.find((member) => member.lostError)?.lostError
    // Members that were released one by one end it, too.
    const error = hold.end(lost?.reason ?? 'gone')
    if (error) this.context.emit('lost', { hold, error })
  }

  async askHoldCount(): Promise<number> {
    const answers = await Promise.allSettled(this.members.map((member) => member.isHeld()))
    const held = answers.filter((answer) => answer.status === 'fulfilled' && answer.value).length
    const unknown = answers.filter((answer) => answer.status === 'rejected')
    if (held < this.#needed && held + unknown.length >= this.#needed) throw unknown[0]?.reason
    return held >= this.#needed ? 1 : 0
  }

  /** Release every member, whatever becomes of the others; then report the first that failed. */
  async release(hold: Hold): Promise<void> {
    for (const member of this.members) member.onEnd = undefined
    hold.end('released')
    const { lostError } = hold
    const outcomes = await Promise.allSettled(this.members.map((member) => member.unlock()))
    if (lostError) throw lostError
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
    const [lost, ...moreLost] = failures.filter((error) => error instanceof LeaseLostError)
    // One whose release was not answered was held to the end.
    if (lost && this.members.length - 1 - moreLost.length < this.#needed) {
      const error = hold.end(lost.reason) as LeaseLostError
      this.context.emit('lost', { hold, error })
      throw error
    }
    const unknown = failures.filter((error) => !(error instanceof LeaseLostError))
    if (unknown.length > this.#dispensable) throw unknown[0]
  }

  handOver(): void {
    throw new ConfigError('handOver', undefined, 'a hold on one lock; hand its locks over one by one', this)
  }

  notHeld(why: string): NotHeldError {
    return new NotHeldError(`${this.lockName} is not held: ${why}`, this.lockName)
  }
}

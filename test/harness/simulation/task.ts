import { LockError, type LockOptions } from '../../../src/index.js'
import type { Dice } from '../../support/dice.js'
import { FakeReplyError } from '../../support/fakes/fake-redis.js'
import { LONGEST_LEASE_MS, type Process, type World } from './world.js'

/** One of the tasks of a process, which uses something again and again. */
export class Task {
  readonly name: string
  readonly world: World
  readonly process: Process
  readonly dice: Dice

  constructor(world: World, process: Process, index: number) {
    this.name = `${process.name}.t${index + 1}`
    this.world = world
    this.process = process
    this.dice = world.diceOf(this.name)
  }

  note(text: string): void {
    this.world.note(`${this.name} ${text}`)
  }

  async pause(mostMs: number): Promise<void> {
    await this.world.pause(this.process.clock, this.dice.between(0, mostMs))
  }

  /** The outcome, or undefined if it is an error that is documented for users. */
  async tolerate<T>(outcome: Promise<T> | undefined): Promise<T | undefined> {
    try {
      return await outcome
    } catch (error) {
      if (!(error instanceof LockError || error instanceof FakeReplyError || error === 'aborted')) throw error
      this.note(`✘ ${error instanceof LockError ? error.code : String(error)}`)
      return undefined
    }
  }

  options(): LockOptions {
    const { dice } = this
    const options: LockOptions = {}
    if (dice.chance(0.4)) options.leaseTimeMs = dice.between(100, LONGEST_LEASE_MS)
    if (dice.chance(0.1)) options.maxHoldMs = dice.between(50, 1_000)
    return { ...options, ...this.waitOptions() }
  }

  waitOptions(): { waitTimeMs?: number; signal?: AbortSignal } {
    const { dice } = this
    const options: { waitTimeMs?: number; signal?: AbortSignal } = {}
    if (dice.chance(0.5)) options.waitTimeMs = dice.between(0, 3_000)
    if (dice.chance(0.2)) {
      const controller = new AbortController()
      options.signal = controller.signal
      this.process.clock.after(dice.between(0, 1_000), () => controller.abort('aborted'))
    }
    return options
  }
}

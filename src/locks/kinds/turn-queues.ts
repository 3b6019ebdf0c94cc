// Chooses between scripts with and without the turn queue.
import type { ScriptCall } from '../../lua/script.js'
import { turnQueueRefused } from '../../warnings.js'
import type { LockKind, TurnQueueScripts } from './lock-kind.js'

/** Whether a client queues in Redis. If an ACL forbids it, the client stops doing so for all locks: releases wake every client. */
export class TurnQueues {
  #isUsable: boolean
  readonly #warn: (warning: Error) => void

  /** @param isUsable  false in a cluster */
  constructor(isUsable: boolean, warn: (warning: Error) => void) {
    this.#isUsable = isUsable
    this.#warn = warn
  }

  /** The scripts with which clients queue for a lock of this kind; undefined: they do not. */
  of(kind: LockKind): TurnQueueScripts | undefined {
    return this.#isUsable ? kind.turnQueue : undefined
  }

  /** Runs the call that uses the turn queue, and the other one if there is none, or if Redis denies it to this user. */
  run<T>(
    withTurnQueue: ScriptCall | undefined,
    withoutTurnQueue: () => ScriptCall,
    run: (call: ScriptCall) => Promise<T>,
  ): Promise<T> {
    if (!withTurnQueue) return run(withoutTurnQueue())
    return run(withTurnQueue).catch(async (error: unknown) => {
      if (!(error instanceof Error) || !/\bNOPERM\b/.test(error.message)) throw error
      const reply = await run(withoutTurnQueue())
      this.#isUsable = false
      this.#warn(turnQueueRefused(error))
      return reply
    })
  }
}

// The lock whose holds carry a fencing token.
import { notOurs, toWords } from '../delivery/replies.js'
import { fencedLockToken } from '../lua/generated.js'
import { fencingTokenKey } from '../wire/keys.js'
import type { Hold } from './hold.js'
import { runScript } from './inspection.js'
import { Lock } from './lock.js'

/** A hold of a fenced lock. */
export type FencedHold = Hold & { readonly fencingToken: bigint }

/**
 * A re-entrant lock whose holds carry a fencing token. Pass it to the resource that the lock protects, which must reject
 * lower tokens. That is the only protection against a holder that was paused beyond its lease and does not know it yet.
 */
export class FencedLock extends Lock<FencedHold> {
  /**
   * The last token issued to any owner; 0n: none yet. The token of a hold is `hold.fencingToken`.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @see Redisson `RFencedLock.getToken`
   */
  async getToken(): Promise<bigint> {
    const call = fencedLockToken(fencingTokenKey(this.key))
    return await runScript(this.context, this, 'getToken', call, (reply) => {
      const [token] = toWords(reply)
      if (token === undefined || !/^-?\d*$/.test(token)) throw notOurs(reply)
      return BigInt(token)
    })
  }
}

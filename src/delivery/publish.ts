// Publishes one message outside a script.
import { isErrorOf, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/**
 * Publishes one message outside a script: in a cluster on the sharded channel, if Redis has them (7 or later).
 * @returns how many received it; undefined: not known, in a cluster before Redis 7
 * @throws as `Scripts.command`
 */
export async function publish(scripts: Scripts, channel: string, message: string): Promise<number | undefined> {
  if (scripts.isCluster) {
    try {
      return toInteger(await scripts.command(['SPUBLISH', channel, message], channel)) ?? 0
    } catch (error) {
      if (!isErrorOf(error, 'unknown command')) throw error
    }
  }
  const receivers = toInteger(await scripts.command(['PUBLISH', channel, message], channel)) ?? 0
  // Those of one node.
  return scripts.isCluster && receivers === 0 ? undefined : receivers
}

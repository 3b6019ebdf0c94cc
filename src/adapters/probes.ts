// Probes of a connection: whether it gets its own replies, and its server accepts writes.
import { randomUUID } from 'node:crypto'
import { messageOf } from '../errors.js'
import { sleep } from '../util/sleep.js'
import { within } from '../util/timeout.js'
import type { RedisPort } from './port.js'

/** The replies by which a server puts off a self-test: it is loading, or busy with a script. */
const NOT_NOW = /\b(LOADING|BUSY|CLUSTERDOWN|MASTERDOWN|TRYAGAIN)\b/
/** How long to wait after such a reply, ms. */
const TEST_AGAIN_MS = 100
/** After this many other error replies, such as NOPERM, there is no self-test. */
const MAX_REFUSED_TESTS = 3
/** A server that takes no writes: it is a replica, or was demoted to one. */
const DEMOTED = /\b(READONLY|MASTERDOWN)\b/

/** Writes nothing: the field does not exist. A replica refuses it all the same. ARGV[1] comes back from a master. */
const WRITE_PROBE = `local reply = redis.pcall('hdel', KEYS[1], ARGV[1])
if type(reply) == 'table' and string.find(reply.err, 'READONLY', 1, true) then
  return reply
end
return ARGV[1]`

/** Whether an error reply says that the server is not a master, or no longer. */
export function isDemotion(error: unknown): boolean {
  return DEMOTED.test(messageOf(error))
}

/** Whether the reply to a command is the one to that command. By a script, which everyone who takes locks may run. */
export async function isEchoed(port: RedisPort, key: string, script = 'return ARGV[1]'): Promise<boolean> {
  const nonce = randomUUID()
  return String(await port.send(['EVAL', script, '1', key, nonce], key)) === nonce
}

/** @returns whether the echo came back as it was sent; undefined: the connection was lost again */
export async function passesSelfTest(
  echo: () => Promise<boolean>,
  isErrorReply: (error: unknown) => boolean,
): Promise<boolean | undefined> {
  for (let refused = 0; refused < MAX_REFUSED_TESTS; ) {
    try {
      return await echo()
    } catch (error) {
      if (!isErrorReply(error)) return undefined
      if (!NOT_NOW.test(messageOf(error))) refused++
      await sleep(TEST_AGAIN_MS)
    }
  }
  return true
}

/**
 * Resolves when the server that owns `key` has replied to a write; by CLIENT PAUSE it is held up like any other.
 * @throws what the port throws: no reply, or the server is not a master
 * @throws {Error} it was the reply to another command
 */
export async function takesWrites(port: RedisPort, key: string): Promise<void> {
  try {
    if (!(await isEchoed(port, key, WRITE_PROBE))) throw new Error('this was the reply to another command')
  } catch (error) {
    // Other refusals, such as NOPERM, come from a server that is there.
    if (!port.isErrorReply(error) || isDemotion(error)) throw error
  }
}

/** Whether a server takes no writes now, or does not reply. */
export async function isReplica(port: RedisPort, key: string, limitMs: number, signal: AbortSignal): Promise<boolean> {
  return await within(limitMs, takesWrites(port, key), signal).then(
    () => false,
    () => true,
  )
}

/** Whether a port leads to that run of a server; false if it may not be asked. */
export async function isRun(port: RedisPort, run: string, key: string): Promise<boolean> {
  try {
    const info = String(await port.send(['INFO', 'server'], key))
    return info.split('\r\n').includes(`run_id:${run}`)
  } catch (error) {
    if (port.isErrorReply(error)) return false
    throw error
  }
}

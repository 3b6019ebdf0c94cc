// A Redis in memory: runs the scripts, publishes.
import { SCRIPTS } from '../lua/generated.js'
import type { Script } from '../lua/script.js'
import { forCluster, forMany, forOnce, inTime } from '../lua/variants.js'
import { sha1Of } from '../platform.js'
import type { Clock } from '../util/clock.js'
import {
  type Chunk,
  errorReply,
  fromBytes,
  general,
  Keyspace,
  LuaError,
  publishBothWays,
  type Redis,
  type Reply,
  ReplyError,
  forMany as runMany,
  Status,
  Table,
  toBytes,
  translated,
  type Value,
} from './engine.js'

/** A script that the in-memory Redis can run. */
export interface KnownScript {
  readonly script: Script
  /** Whether it runs once. */
  readonly isOnce: boolean
  /** Whether one call of it makes many calls of `script`. */
  readonly isBatch: boolean
  readonly isForCluster: boolean
  /** Whether it has a deadline. */
  readonly isInTime: boolean
}

/** Receives what is published. @returns whether it is subscribed to the channel */
export type Receiver = (channel: string, message: string, isSharded: boolean) => boolean

let known: Map<string, KnownScript> | undefined

/** The script with this SHA-1, in any of its forms; undefined: it is not ours. */
export function knownScript(sha1: string): KnownScript | undefined {
  known ??= new Map(SCRIPTS.flatMap(formsOf).map((form) => [form.sha1, form]))
  return known.get(sha1)
}

/** The forms of a script. Only scripts that publish differ in a cluster. */
function formsOf(script: Script): (KnownScript & { readonly sha1: string })[] {
  return [false, true].flatMap((isOnce) =>
    [false, true].flatMap((isBatch) =>
      [true, false].flatMap((isForCluster) => {
        const one = isOnce ? forOnce(script) : script
        const all = isBatch ? forMany(one) : one
        const form = isForCluster ? forCluster(all) : all
        return [false, true].map((isInTime) => {
          const { sha1 } = isInTime ? inTime(form) : form
          return { script, isOnce, isBatch, isForCluster, isInTime, sha1 }
        })
      }),
    ),
  )
}

/**
 * A Redis in memory that runs Holdfast's own scripts, and nothing but them: a server of which connections are `MemoryPort`s.
 * Its time is that of the clock.
 */
export class MemoryRedis {
  /** The stored values, for tests that read or change them. Texts are strings of bytes. */
  readonly keyspace: Keyspace
  readonly #receivers = new Set<Receiver>()
  /** SHA-1s of the scripts that SCRIPT FLUSH forgot, and that have not come as text since. */
  #forgotten: Set<string> | undefined

  /** @param epochAt  the time of day at the instant 0 of the clock, epoch ms */
  constructor(clock: Pick<Clock, 'now'>, epochAt = 0) {
    const publish = (channel: string, message: string, isSharded: boolean): number =>
      this.#deliver(channel, message, isSharded)
    this.keyspace = new Keyspace(() => (epochAt + clock.now()) * 1000, publish)
    this.keyspace.tick()
  }

  /**
   * Runs a command: EVAL and EVALSHA of Holdfast's scripts, and those that they call.
   * @throws {ReplyError}
   */
  execute([name = '', ...words]: readonly string[]): unknown {
    this.keyspace.tick()
    const args = words.map(toBytes)
    const verb = name.toUpperCase()
    if (verb === 'EVAL' || verb === 'EVALSHA') return fromReply(this.#evaluate(verb === 'EVAL', args))
    if (verb === 'PING') return 'PONG'
    return fromReply(this.keyspace.execute(name, args))
  }

  /** PUBLISH. @returns how many received it */
  publish(channel: string, message: string): number {
    return this.execute(['PUBLISH', channel, message]) as number
  }

  /** From now on `receive` gets what is published; a receiver must not run anything at once. */
  connect(receive: Receiver): () => void {
    this.#receivers.add(receive)
    return () => this.#receivers.delete(receive)
  }

  /** FLUSHALL, or a Redis that lost its data. */
  flush(): void {
    this.keyspace.clear()
  }

  /** SCRIPT FLUSH, or a Redis that was started again. */
  forgetScripts(): void {
    this.#forgotten = new Set()
  }

  #deliver(channel: string, message: string, isSharded: boolean): number {
    let count = 0
    const [name, text] = [fromBytes(channel), fromBytes(message)]
    for (const receive of this.#receivers) if (receive(name, text, isSharded)) count++
    return count
  }

  #evaluate(isText: boolean, [source = '', count, ...words]: readonly string[]): Reply {
    const sha1 = isText ? sha1Of(source) : source.toLowerCase()
    const found = knownScript(sha1)
    if (isText) this.#forgotten?.add(sha1)
    else if (!found || this.#forgotten?.has(sha1) === false) {
      throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.')
    }
    if (!found) throw new ReplyError("ERR the in-memory Redis runs Holdfast's own scripts only, in this very version")
    const keys = words.slice(0, Number(count))
    return this.#run(found, new Table(keys), new Table(words.slice(keys.length)))
  }

  #run({ script, isOnce, isBatch, isForCluster, isInTime }: KnownScript, keys: Table, args: Table): Reply {
    const { scripts, once, inTime: beforeDeadline } = isForCluster ? this.#forCluster : this.#plain
    let call = scripts[script.name] as Chunk
    if (isOnce) call = once(call)
    if (isBatch) call = runMany(call)
    if (isInTime) call = beforeDeadline(call)
    try {
      return toReply(call(keys, args)[0])
    } catch (error) {
      if (error instanceof LuaError) return toReply(error.value)
      throw error
    }
  }

  readonly #host: Redis = {
    call: (name, ...args) => {
      try {
        return toValue(this.keyspace.execute(name, args.map(toArgument)))
      } catch (error) {
        if (error instanceof ReplyError) throw new LuaError(errorReply(error.message))
        throw error
      }
    },
    pcall: (name, ...args) => {
      try {
        return toValue(this.keyspace.execute(name, args.map(toArgument)))
      } catch (error) {
        if (error instanceof ReplyError) return errorReply(error.message)
        throw error
      }
    },
    publish: (channel, message) => [this.#host.pcall('publish', channel, message)],
  }

  readonly #plain = translated(this.#host)
  readonly #forCluster = translated({
    ...this.#host,
    publish: (channel, message) => publishBothWays(this.#host, channel, message),
  })
}

/** The arguments that a script passes to a command. */
function toArgument(value: Value): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return general(value, 17)
  throw new ReplyError('ERR Lua redis lib command arguments must be strings or integers')
}

/** The reply to a command, for the script that called it. */
function toValue(reply: Reply): Value {
  if (reply === null) return false
  if (typeof reply === 'number' || typeof reply === 'string') return reply
  if (!(reply instanceof Status)) return new Table(reply.map(toValue))
  const status = new Table()
  status.set('ok', reply.ok)
  return status
}

/** The value that a script returned, as a reply. */
function toReply(value: Value): Reply {
  // 64 bits, as C has it: what does not fit becomes the least of them
  if (typeof value === 'number') return Math.abs(value) < 2 ** 63 ? Math.trunc(value) + 0 : -(2 ** 63)
  if (typeof value === 'string') return value
  if (value === true) return 1
  if (!(value instanceof Table)) return null
  const error = value.get('err')
  if (typeof error === 'string') throw new ReplyError(error)
  const status = value.get('ok')
  return typeof status === 'string' ? new Status(status) : value.list.map(toReply)
}

/** The same for the caller. */
function fromReply(reply: Reply): unknown {
  if (typeof reply === 'string') return fromBytes(reply)
  if (reply instanceof Status) return reply.ok
  return Array.isArray(reply) ? reply.map(fromReply) : reply
}

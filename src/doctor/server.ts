// Queries one server.
import type { Redis } from 'ioredis'
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'
import { within } from '../util/timeout.js'
import { productOf } from './products.js'

/** Time limit for one reply, ms. */
const REPLY_MS = 5_000

/** One server that accepts writes, or should. */
export class Server {
  readonly redis: Redis
  readonly address: string
  readonly #settings = new Map<string, Promise<string | undefined>>()
  #info: Promise<ReadonlyMap<string, string>> | undefined

  constructor(redis: Redis) {
    const { host, port, path } = redis.options
    const { remoteAddress = host, remotePort = port } = redis.stream ?? {}
    this.redis = redis
    this.address = path ?? `${remoteAddress?.includes(':') ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
  }

  get isLoopback(): boolean {
    return this.redis.options.path !== undefined || /^(127\.|\[::1\]|\[::ffff:127\.|localhost:)/.test(this.address)
  }

  /** @throws the error reply, or that there was no reply in time */
  async command(name: string, ...args: string[]): Promise<unknown> {
    try {
      return await within(REPLY_MS, this.redis.call(name, ...args))
    } catch (error) {
      throw withoutSecrets(error)
    }
  }

  async textOf(name: string, ...args: string[]): Promise<string> {
    return String(await this.command(name, ...args))
  }

  /** All fields of INFO, requested once. */
  info(): Promise<ReadonlyMap<string, string>> {
    this.#info ??= this.textOf('INFO').then(fieldsOf)
    return this.#info
  }

  /** A field of INFO; empty if it is missing. */
  async infoField(field: string): Promise<string> {
    return (await this.info()).get(field) ?? ''
  }

  /** A number of INFO; NaN if it is missing. */
  async infoNumber(field: string): Promise<number> {
    return Number.parseFloat(await this.infoField(field))
  }

  /**
   * A setting, requested once.
   * @returns undefined if this server has no setting of that name
   * @throws the error reply, such as NOPERM
   */
  setting(name: string): Promise<string | undefined> {
    const known = this.#settings.get(name)
    if (known !== undefined) return known
    const value = this.command('CONFIG', 'GET', name).then((reply) => {
      // A list with RESP2, a map with RESP3.
      const values = Array.isArray(reply) ? reply.slice(1) : Object.values((reply ?? {}) as object)
      return values[0] === undefined ? undefined : String(values[0])
    })
    this.#settings.set(name, value)
    return value
  }

  async isReplica(): Promise<boolean> {
    return (await this.infoField('role')) === 'slave'
  }

  async version(): Promise<Version> {
    const info = await this.info()
    const { name, version } = productOf(info)
    return { product: name, text: version, compatible: numbersOf(info.get('redis_version') || version) }
  }
}

export interface Version {
  readonly product: string
  readonly text: string
  /** The Redis version that it is or claims to be compatible with. */
  readonly compatible: readonly number[]
}

/** Whether a version is older than `major.minor.patch`. */
export function isBefore(version: readonly number[], ...other: number[]): boolean {
  for (const [at, number] of other.entries()) {
    const own = version[at] ?? 0
    if (own !== number) return own < number
  }
  return false
}

/** Whether it is an error reply, and not a missing one. */
export function isReply(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Whether an error reply says that the user lacks a right. */
export function isDenied(error: unknown): boolean {
  return /\bNOPERM\b/.test(messageOf(error))
}

/** The fields of INFO and of CLUSTER INFO. */
export function fieldsOf(text: string): ReadonlyMap<string, string> {
  return new Map(
    [...text.matchAll(/^([^#:\r\n][^:\r\n]*):([^\r\n]*)/gm)].map(([, name = '', value = '']) => [name, value]),
  )
}

function numbersOf(version: string): number[] {
  return version.split('.').map((part) => Number.parseInt(part, 10) || 0)
}

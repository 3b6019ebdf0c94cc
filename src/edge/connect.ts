// connect() on edge runtimes: over HTTP.
import { http, isUpstash, type UpstashLike } from '../adapters/http/port.js'
import type { RedisPort } from '../adapters/port.js'
import { Client } from '../client.js'
import { CLIENT_OPTIONS, type ClientOptions } from '../client-options.js'
import { ConfigError } from '../errors.js'
import { ownOptions } from '../util/validate.js'

export interface EdgeOptions extends ClientOptions {
  /** A client of @upstash/redis, or what `http({ url, token })` returns. */
  client: UpstashLike | RedisPort
}

/**
 * Open a client on an edge runtime, or anywhere else over HTTP. It sends nothing, and takes a moment: open one in each
 * request, since some runtimes allow neither timers nor requests outside of one, and close it at its end.
 * @throws {ConfigError} `client` does not speak HTTP, or an option cannot work here
 * @example `await using client = await connect({ client: http({ url, token }) })`
 */
export async function connect(options: EdgeOptions): Promise<Client> {
  const { client, ...rest } = Object(options) as EdgeOptions
  return new Client(portOf(client), ownOptions(rest, CLIENT_OPTIONS))
}

function portOf(client: unknown): RedisPort {
  if (isUpstash(client)) return http(client)
  if (isOverHttp(client)) return client
  const allowed =
    'a client of @upstash/redis, or http({ url, token }) of holdfast/http: an edge runtime has no other connection to ' +
    'Redis. In Next.js, `export const runtime = "nodejs"` in the route allows all others'
  throw new ConfigError('client', undefined, allowed)
}

function isOverHttp(client: unknown): client is RedisPort {
  const { isErrorReply, hasMessages } = Object(client) as Partial<RedisPort>
  return typeof isErrorReply === 'function' && hasMessages === false
}

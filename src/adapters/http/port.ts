// holdfast/http: a Redis behind the REST protocol of Upstash as a port. There are no messages: who waits polls.
import { ConfigError } from '../../errors.js'
import { clearTimeout, queueMicrotask, setTimeout } from '../../util/real-time.js'
import { withoutSecrets } from '../../util/secrets.js'
import { ownOptions } from '../../util/validate.js'
import type { PortEvents, RedisPort } from '../port.js'

/** What is public of a client of @upstash/redis. Its address and token are not, and are checked when it is used. */
export interface UpstashLike {
  evalsha(...args: never[]): unknown
  pipeline(...args: never[]): unknown
}

/** Where a server is that has the REST protocol of Upstash. */
export interface HttpOptions {
  /** Such as `https://example.upstash.io`. */
  readonly url: string
  readonly token: string
}

/** The most commands of one request. */
const MAX_COMMANDS = 32
/** When a request is given up whose callers have long stopped waiting, ms: it occupies a connection. */
const GIVE_UP_MS = 30_000
/** With a text of Redis, or of the server, that says why nothing ran. */
const REFUSED = [400, 401, 403]
const UNAUTHORIZED = 401
const NO_REPLY = 'without a reply of Redis'
const BLANK = new URL('about:blank')

export function isUpstash(client: unknown): client is UpstashLike {
  const { request, baseUrl, headers } = requesterOf(client)
  return (
    typeof request === 'function' && typeof baseUrl === 'string' && typeof Object(headers).authorization === 'string'
  )
}

/**
 * Uses the address and the token of a client of @upstash/redis, or these alone. Without messages, waiting callers poll with
 * the pace of a spin lock.
 *
 * Holdfast sends its requests itself, one for each turn of the event loop. That client would repeat them unseen, so that a
 * copy could take a lock again after its release, and takes its aborted `signal` for a reply.
 *
 * `connect({ client })` calls this itself. Call it yourself with an address and a token, or if your bundler cannot follow a
 * dynamic import.
 * @throws {ConfigError} it is no such client, or its address or token cannot work
 * @example `const client = await connect({ client: http({ url: 'https://example.upstash.io', token }) })`
 */
export function http(server: UpstashLike | HttpOptions): RedisPort {
  if (!isUpstash(server)) return new HttpPort(ownOptions(server as HttpOptions, { url: 1, token: 1 }))
  const { baseUrl, headers } = requesterOf(server)
  const { authorization } = headers as { authorization: string }
  return new HttpPort({ url: baseUrl as string, token: authorization.replace(/^Bearer /, '') })
}

/** How a client of @upstash/redis sends its requests: its own class, if it was opened with an address and a token. */
interface Requester {
  readonly request?: unknown
  readonly baseUrl?: unknown
  readonly headers?: unknown
}

function requesterOf(client: unknown): Requester {
  return Object(Object(client).client)
}

/** An error reply of Redis, or of the server in front of it: the command did not run. */
class ErrorReply extends Error {}

/** A command, and what receives its reply. */
interface Call {
  readonly command: readonly string[]
  resolve(reply: unknown): void
  reject(error: unknown): void
}

class HttpPort implements RedisPort {
  readonly isOneServer = true
  readonly hasMessages = false
  connectionError: unknown
  readonly #url: string
  readonly #token: string
  readonly #inFlight = new Set<AbortController>()
  #turn: Call[] = []
  #events: PortEvents | undefined

  constructor({ url, token }: HttpOptions) {
    this.#url = checkUrl(url)
    this.#token = checkToken(token)
  }

  send(command: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#turn.push({ command, resolve, reject }) === 1) queueMicrotask(this.#endTurn)
    })
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof ErrorReply
  }

  /** Never called. */
  async subscribe(): Promise<void> {
    throw new Error('there are no messages over HTTP')
  }

  async unsubscribe(): Promise<void> {
    // nothing is subscribed to
  }

  /** @throws {ConfigError} grants shall be confirmed */
  listen(events: PortEvents): void {
    if (events.confirmsGrants) {
      const allowed = 'neither of them over HTTP: WAIT and WAITAOF confirm what their own connection wrote'
      throw new ConfigError('checkLockSyncedSlaves, checkLockFsynced', undefined, allowed)
    }
    this.#events = events
  }

  async close(): Promise<void> {
    for (const controller of this.#inFlight) controller.abort()
  }

  readonly #endTurn = (): void => {
    const calls = this.#turn
    this.#turn = []
    for (let at = 0; at < calls.length; at += MAX_COMMANDS) void this.#request(calls.slice(at, at + MAX_COMMANDS))
  }

  async #request(calls: readonly Call[]): Promise<void> {
    try {
      const replies = await this.#repliesTo(calls.map(({ command }) => command))
      for (const [index, call] of calls.entries()) settle(call, replies[index])
    } catch (error) {
      withoutSecrets(error, this.#token)
      for (const call of calls) call.reject(error)
    }
  }

  /** @throws the request failed, or was refused as a whole */
  async #repliesTo(commands: readonly (readonly string[])[]): Promise<readonly unknown[]> {
    const isOne = commands.length === 1
    const [status, text] = await this.#post(isOne ? '' : '/pipeline', JSON.stringify(isOne ? commands[0] : commands))
    const body = parsed(text)
    const replies = isOne ? [body] : body
    if (status === 200 && Array.isArray(replies) && replies.length === commands.length) return replies
    const { error } = Object(body)
    if (status === UNAUTHORIZED) throw new ErrorReply(`WRONGPASS the server refused the token (HTTP ${status})`)
    if (REFUSED.includes(status) && typeof error === 'string') throw new ErrorReply(error)
    throw new Error(`HTTP ${status}, ${typeof error === 'string' ? error : NO_REPLY}`)
  }

  /** @returns status and text of the response */
  async #post(path: string, body: string): Promise<readonly [number, string]> {
    const controller = new AbortController()
    const { signal } = controller
    const timer = setTimeout(() => controller.abort(), GIVE_UP_MS)
    this.#inFlight.add(controller)
    try {
      return await this.#postOnce(path, body, signal).catch(async (error) => {
        if (signal.aborted) throw error
        // A connection that was kept may have died while nobody looked, as in a function that was frozen.
        const answer = await this.#postOnce(path, body, signal)
        this.#events?.reconnected()
        return answer
      })
    } catch (error) {
      this.connectionError = (error as Error).cause ?? error
      throw error
    } finally {
      clearTimeout(timer)
      this.#inFlight.delete(controller)
    }
  }

  async #postOnce(path: string, body: string, signal: AbortSignal): Promise<readonly [number, string]> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' }
    // A POST that is redirected becomes a GET, and Next.js may keep the reply to one, such as that a lease was renewed.
    const options = { method: 'POST', headers, body, signal, redirect: 'manual', cache: 'no-store' } as const
    const response = await fetch(this.#url + path, options)
    const text = await response.text()
    this.connectionError = undefined
    return [response.status, text]
  }
}

/** @throws {ConfigError} without what is secret in it */
function checkUrl(url: unknown): string {
  const { protocol, origin, pathname, href } = typeof url === 'string' && URL.canParse(url) ? new URL(url) : BLANK
  if (/^https?:$/.test(protocol) && href === origin + pathname) return href.replace(/\/$/, '')
  throw new ConfigError('url', undefined, 'https://host of a server with the REST protocol of Upstash')
}

/** @throws {ConfigError} without the token */
function checkToken(token: unknown): string {
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token
  throw new ConfigError('token', undefined, 'a text without spaces')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function settle({ resolve, reject }: Call, reply: unknown): void {
  const { result, error } = Object(reply)
  if (typeof error === 'string') reject(new ErrorReply(error))
  // Not null, which may mean that a lock was taken.
  else if (result === undefined) reject(new Error(`HTTP 200, ${NO_REPLY}`))
  else resolve(result)
}

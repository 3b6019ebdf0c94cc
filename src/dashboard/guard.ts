/** Admits requests to the dashboard: checks the token, and refuses foreign pages in the operator's browser. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../util/clock.js'
import type { ErrorReply } from './api.js'

/** With every response. Nothing but the page's own files runs, and nothing leaves for another origin. */
const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const

const MAX_FAILURES = 5
const FAILURES_MS = 60_000
/** Addresses whose failures are counted; the oldest is forgotten first. */
const MAX_ADDRESSES = 1_000

/** A copy: the headers of a redirect are immutable. */
export function secured({ body, status, statusText, headers }: Response): Response {
  const all = new Headers(headers)
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) all.set(name, value)
  return new Response(body, { status, statusText, headers: all })
}

export function refusal(
  status: number,
  code: ErrorReply['code'],
  error: string,
  headers: Record<string, string> = {},
): Response {
  const reply: ErrorReply = { error, code }
  return Response.json(reply, { status, headers: { 'cache-control': 'no-store', ...headers } })
}

/**
 * A token of one start of the server, 128 random bits. It travels in the `Authorization` header and never in a cookie:
 * cookies ignore the port, so any other server on localhost would receive it.
 */
export class TokenGuard {
  readonly token = randomBytes(16).toString('base64url')
  readonly #clock: Clock
  readonly #digest = digestOf(this.token)
  /** Digest of the token that admits to the metrics alone. */
  readonly #metricsDigest: Buffer | undefined
  readonly #failures = new Map<string, { count: number; endsAt: number }>()

  constructor(clock: Clock, metricsToken?: string) {
    this.#clock = clock
    this.#metricsDigest = metricsToken === undefined ? undefined : digestOf(metricsToken)
  }

  /** A short name of this start, for the audit; says nothing about the token. */
  get session(): string {
    return digestOf(`session of ${this.token}`).toString('hex').slice(0, 8)
  }

  /**
   * @returns undefined: the request has the token. The right token passes however many failures there were, so nobody
   * can lock the operator out; 128 bits cannot be guessed.
   */
  refuse(request: Request, address: string): Response | undefined {
    const [, given] = /^Bearer ([\w-]{1,100})$/i.exec(request.headers.get('authorization') ?? '') ?? []
    if (given !== undefined && this.#isAdmitted(digestOf(given), request)) return undefined
    // Without a token it is a browser that has none, or a foreign page, which cannot send one.
    const retryAfterMs = given === undefined ? 0 : this.#countFailure(address)
    if (retryAfterMs > 0) {
      return refusal(429, 'too-many-failures', 'too many wrong tokens from this address', {
        'retry-after': String(Math.ceil(retryAfterMs / 1_000)),
      })
    }
    return refusal(401, 'unauthorized', 'open the URL that holdfast ui printed: each start has a new token', {
      'www-authenticate': 'Bearer',
    })
  }

  #isAdmitted(given: Buffer, { url }: Request): boolean {
    if (timingSafeEqual(given, this.#digest)) return true
    const isScrape = this.#metricsDigest !== undefined && new URL(url).pathname === '/metrics'
    return isScrape && timingSafeEqual(given, this.#metricsDigest as Buffer)
  }

  /** @returns for how much longer the address has failed too often, ms; 0: it has not */
  #countFailure(address: string): number {
    const now = this.#clock.now()
    const known = this.#failures.get(address)
    if (!known || known.endsAt <= now) {
      this.#failures.delete(address)
      const [oldest] = this.#failures.keys()
      if (this.#failures.size >= MAX_ADDRESSES && oldest !== undefined) this.#failures.delete(oldest)
      this.#failures.set(address, { count: 1, endsAt: now + FAILURES_MS })
      return 0
    }
    known.count++
    return known.count > MAX_FAILURES ? known.endsAt - now : 0
  }
}

/** All digests have the same length, as the comparison requires. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** The name of a `Host` header or an option, without its port, in lower case; undefined: it is not one. */
export function hostnameOf(host: string): string | undefined {
  return /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase()
}

/**
 * Against DNS rebinding: a foreign page whose name suddenly resolves to 127.0.0.1 is of the same origin as the dashboard
 * for the browser, but still sends its own name.
 * @param hosts  names without port; undefined: all are allowed
 */
export function refuseHost(request: Request, hosts: ReadonlySet<string> | undefined): Response | undefined {
  const name = hostnameOf(hostOf(request))
  if (!hosts || (name !== undefined && hosts.has(name))) return undefined
  return refusal(421, 'wrong-host', 'not served under this name; allow it with --allow-host, or the option hosts')
}

/**
 * Against requests that a foreign page makes the browser send, with the cookies of the application in which the dashboard
 * is mounted: a form cannot send JSON, nothing can send our header to another origin without being asked about, and the
 * browser says where a request comes from.
 */
export function refuseForeign(request: Request): Response | undefined {
  const [type = ''] = (request.headers.get('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    return refusal(415, 'unsupported-type', 'send Content-Type: application/json')
  }
  if (request.headers.get('x-holdfast') !== '1') return refusal(403, 'wrong-origin', 'send the header x-holdfast: 1')
  const origin = request.headers.get('origin') ?? ''
  if (URL.canParse(origin) && new URL(origin).host === hostOf(request)) return undefined
  return refusal(403, 'wrong-origin', 'the header Origin is missing or foreign; a proxy must pass Host on')
}

function hostOf(request: Request): string {
  return (request.headers.get('host') ?? new URL(request.url).host).toLowerCase()
}

/** The page as it was built, with a server that says what a test wants it to say. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname } from 'node:path'
import type {
  Changes,
  ErrorReply,
  LockRow,
  Outage,
  Snapshot,
  StreamMessage,
  Totals,
  UnlockReply,
  UnlockRequest,
} from '../../src/dashboard/api.js'
import { detailOf, type Fleet } from './fake-fleet.js'

/** From the compiled test in build/test/dashboard. */
const PAGE = new URL('../../../dist/dashboard/page/', import.meta.url)
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
}
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

/** As a driver says it. */
const UNAVAILABLE: ErrorReply = {
  error: 'Reached the max retries per request limit (connect ECONNREFUSED 127.0.0.1:6379)',
  code: 'unavailable',
}

export class FakeDashboard implements AsyncDisposable {
  readonly token = 'c0ffee00c0ffee00c0ffee00c0ffee00'
  /** Bodies of `POST api/unlock`. */
  readonly unlocks: UnlockRequest[] = []
  unlockReply: UnlockReply | ErrorReply = { outcome: 'released' }
  /** New streams are refused. */
  isDown = false
  /** Redis cannot be read, and could not be read before either. */
  isUnread = false
  doubts: Totals['doubts'] = []
  /** Paths that were requested, with their origin. */
  readonly requested: string[] = []
  readonly #server: Server
  readonly #streams = new Set<ServerResponse>()
  readonly #beat = setInterval(() => this.push([], []), 1_000)
  /** Whether the Redis user may break locks. */
  mayBreak = true
  #sequence = 0
  #outage: { readonly at: number; readonly error: string } | undefined

  private constructor(
    readonly fleet: Fleet,
    public readOnly: boolean,
  ) {
    this.#server = createServer((request, response) => void this.#reply(request, response))
  }

  static async start(fleet: Fleet, { readOnly = false } = {}): Promise<FakeDashboard> {
    const dashboard = new FakeDashboard(fleet, readOnly)
    dashboard.#server.listen(0, '127.0.0.1')
    await once(dashboard.#server, 'listening')
    return dashboard
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** As `holdfast ui` prints it. */
  get url(): string {
    return `${this.origin}/#token=${this.token}`
  }

  get streams(): number {
    return this.#streams.size
  }

  /** Sends changes, and keeps them for the next snapshot. */
  push(changed: readonly LockRow[], removed: readonly string[]): void {
    const gone = new Set([...removed, ...changed.map(({ id }) => id)])
    this.fleet.locks = [...this.fleet.locks.filter(({ id }) => !gone.has(id)), ...changed]
    this.#sequence += 1
    const base: Changes = { type: 'changes', sequence: this.#sequence, totals: this.#totals(), changed, removed }
    this.#send({ ...base, ...this.#shownOutage() })
  }

  /** @param error  from now on Redis cannot be read; undefined: it can */
  fail(error: string | undefined): void {
    this.#outage = error === undefined ? undefined : { at: Date.now(), error }
    this.push([], [])
  }

  #shownOutage(): { outage?: Outage } {
    if (this.#outage === undefined) return {}
    const { at, error } = this.#outage
    const sinceAgoMs = Date.now() - at
    return { outage: { sinceAgoMs, readAgoMs: sinceAgoMs + 1_000, error } }
  }

  /** Cuts every stream. */
  cut(): void {
    for (const stream of this.#streams) stream.destroy()
    this.#streams.clear()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#beat)
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', this.origin)
    this.requested.push(pathname)
    response.setHeader('content-security-policy', POLICY)
    response.setHeader('x-content-type-options', 'nosniff')
    if (!pathname.startsWith('/api/')) return sendFile(response, pathname === '/' ? 'index.html' : pathname.slice(1))
    if (request.headers.authorization !== `Bearer ${this.token}`)
      return sendJson(response, 401, { error: 'The token is not that of this start.', code: 'unauthorized' })
    if (this.isUnread) return sendJson(response, 503, UNAVAILABLE)
    if (pathname === '/api/stream') return this.#open(response)
    if (pathname === '/api/unlock') return await this.#unlock(request, response)
    if (this.#outage !== undefined) return sendJson(response, 503, UNAVAILABLE)
    const reply = this.#query(pathname)
    sendJson(response, reply === undefined ? 404 : 200, reply ?? { error: 'Not found.', code: 'not-found' })
  }

  #query(pathname: string): unknown {
    const { fleet } = this
    if (pathname === '/api/clients') return { clients: fleet.clients }
    if (pathname === '/api/deadlocks') return fleet.deadlocks
    if (pathname === '/api/jobs') return { jobs: fleet.jobs }
    if (pathname === '/api/audit') return { entries: fleet.audit }
    const detail = detailOf(fleet, pathname.replace('/api/locks/', ''))
    return detail && { ...detail, mayBreak: this.mayBreak }
  }

  #open(response: ServerResponse): void {
    if (this.isDown) {
      response.destroy()
      return
    }
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    const { fleet, readOnly } = this
    const snapshot: Snapshot = {
      type: 'snapshot',
      sequence: this.#sequence,
      title: 'redis.internal:6379',
      readOnly,
      totals: this.#totals(),
      history: fleet.history,
      locks: fleet.locks,
      ...this.#shownOutage(),
    }
    response.write(`${JSON.stringify(snapshot)}\n`)
    this.#streams.add(response)
    response.on('close', () => this.#streams.delete(response))
  }

  async #unlock(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const isTrusted = request.headers['content-type'] === 'application/json' && request.headers['x-holdfast'] === '1'
    const { unlockReply } = this
    if (!isTrusted || this.readOnly) return sendJson(response, 404, { error: 'Not found.', code: 'not-found' })
    this.unlocks.push(JSON.parse(Buffer.concat(chunks).toString()) as UnlockRequest)
    sendJson(response, 'error' in unlockReply ? 503 : 200, unlockReply)
  }

  #send(message: StreamMessage): void {
    for (const stream of this.#streams) stream.write(`${JSON.stringify(message)}\n`)
  }

  #totals(): Totals {
    const { locks, deadlocks, clients } = this.fleet
    const waits = locks.flatMap(({ waiters }) => waiters.map(({ waitedMs }) => waitedMs ?? 0)).sort((a, b) => a - b)
    const holders = locks.flatMap((one) => one.holders)
    return {
      held: locks.length,
      contended: locks.filter(({ waiters, otherListeners }) => waiters.length + otherListeners > 0).length,
      waiters: waits.length,
      deadlocks: deadlocks.cycles.length,
      oldestMs: Math.max(0, ...holders.map(({ heldMs }) => heldMs ?? 0)),
      waitP95Ms: waits[Math.floor(waits.length * 0.95)] ?? 0,
      unlisted: holders.filter(({ status }) => status === 'unlisted').length,
      newHolds: 14,
      losses: clients.reduce((sum, { lossesLastHour = 0 }) => sum + lossesLastHour, 0),
      silentClients: clients.filter(({ lossesLastHour }) => lossesLastHour === undefined).length,
      isTruncated: false,
      doubts: this.doubts,
    }
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function sendFile(response: ServerResponse, file: string): void {
  try {
    const content = readFileSync(new URL(file, PAGE))
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(content)
  } catch {
    response.writeHead(404).end()
  }
}

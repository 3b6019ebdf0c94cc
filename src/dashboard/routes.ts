// The replies of the routes.
import { ConfigError, messageOf } from '../errors.js'
import type { Cycle } from '../fleet/deadlocks.js'
import { countWaiters } from '../fleet/lock-info.js'
import type { AuditEntry } from '../locks/breaking/audit.js'
import { withoutSecrets } from '../util/secrets.js'
import type {
  AuditReply,
  ClientsReply,
  DeadlockRow,
  DeadlocksReply,
  JobsReply,
  LockDetail,
  LockRow,
  LockSort,
  LocksReply,
  UnlockReply,
} from './api.js'
import { refusal, refuseForeign } from './guard.js'
import { metricsOf } from './metrics.js'
import type { Page } from './page.js'
import { idOf, matches, nameOf, shown } from './rows.js'
import type { FleetSource, Sampler } from './sampler.js'
import type { Streams } from './stream.js'
import { readUnlock } from './unlock.js'

/** The parts of the dashboard that the routes use. */
export interface Parts {
  readonly fleet: FleetSource
  readonly sampler: Sampler
  readonly streams: Streams
  readonly page: Page
  readonly title: string
  readonly readOnly: boolean
}

/** A request that has passed the guard. */
export interface Call {
  readonly request: Request
  readonly query: URLSearchParams
  /** The part of the path that the route leaves open. */
  readonly rest: string
  /** The user, for the audit. */
  readonly by: string
}

export interface Route {
  readonly method: 'GET' | 'HEAD' | 'OPTIONS' | 'POST'
  /** Relative to where the dashboard is mounted; its group is `Call.rest`. */
  readonly path: RegExp
  /** Needs no authorization: it has no data. */
  readonly isPublic?: boolean
  handle(call: Call): Response | Promise<Response>
}

const PAGE_SIZE = 200
const ROOT = /^\/()$/
const MAX_PATTERN = 256

/** Read-only, there is no route that changes anything. */
export function routesOf(parts: Parts): Route[] {
  const { fleet, sampler, page } = parts
  const sampled = async <T>(read: () => T): Promise<T> => {
    await sampler.ready()
    return read()
  }
  const reading: Route[] = [
    { method: 'GET', path: ROOT, isPublic: true, handle: () => page.index() },
    // Health checks ask for these.
    { method: 'HEAD', path: ROOT, isPublic: true, handle: () => withoutBody(page.index()) },
    {
      method: 'OPTIONS',
      path: ROOT,
      isPublic: true,
      handle: () => new Response(null, { status: 204, headers: { allow: 'GET, HEAD, OPTIONS' } }),
    },
    {
      method: 'GET',
      path: /^\/assets\/([\w.-]+)$/,
      isPublic: true,
      handle: ({ rest }) => page.asset(rest) ?? notFound(),
    },
    {
      method: 'GET',
      path: /^\/api\/locks()$/,
      handle: async ({ query }) => json(await sampled(() => locksReply(sampler, query))),
    },
    { method: 'GET', path: /^\/api\/locks\/([\w~-]+)$/, handle: ({ rest }) => lockDetail(sampler, rest) },
    {
      method: 'GET',
      path: /^\/api\/clients()$/,
      handle: async () => {
        const clients = await fleet.clients()
        return json(await sampled((): ClientsReply => ({ clients: withHolds(clients, sampler) })))
      },
    },
    {
      method: 'GET',
      path: /^\/api\/deadlocks()$/,
      handle: async () => json(await sampled(() => deadlocksReply(sampler))),
    },
    {
      method: 'GET',
      path: /^\/api\/jobs()$/,
      handle: async () => {
        const jobs = await fleet.jobs()
        return json({ jobs: jobs.map((job) => ({ ...job, name: shown(job.name) })) } satisfies JobsReply)
      },
    },
    {
      method: 'GET',
      path: /^\/api\/audit()$/,
      handle: async () => json(auditReply(await fleet.audit())),
    },
    { method: 'GET', path: /^\/api\/stream()$/, handle: async () => await stream(parts) },
    {
      method: 'GET',
      path: /^\/metrics()$/,
      handle: async () => {
        // Who may not read the jobs gets the other metrics.
        const jobs = await fleet.jobs().catch(() => undefined)
        return text(await sampled(() => metricsOf(sampler.sampled, sampler.totals, jobs)))
      },
    },
  ]
  const unlocking: Route = { method: 'POST', path: /^\/api\/unlock()$/, handle: (call) => unlock(parts, call) }
  return parts.readOnly ? reading : [...reading, unlocking]
}

/** Replies to a call on the first route that fits. */
export async function handle(route: Route, call: Call): Promise<Response> {
  try {
    return (route.method === 'POST' ? refuseForeign(call.request) : undefined) ?? (await route.handle(call))
  } catch (error) {
    const message = messageOf(withoutSecrets(error))
    if (error instanceof ConfigError) return refusal(400, 'bad-request', message)
    return refusal(503, 'unavailable', message)
  }
}

export function notFound(): Response {
  return refusal(404, 'not-found', 'not found')
}

function withoutBody({ status, headers }: Response): Response {
  return new Response(null, { status, headers })
}

function json(value: unknown): Response {
  return Response.json(value, { headers: { 'cache-control': 'no-store' } })
}

function text(body: string): Response {
  const type = 'text/plain; version=0.0.4; charset=utf-8'
  return new Response(body, { headers: { 'content-type': type, 'cache-control': 'no-store' } })
}

const ORDERS: Readonly<Record<LockSort, (one: LockRow, other: LockRow) => number>> = {
  name: (one, other) => compareNames(one, other),
  held: (one, other) => heldMs(other) - heldMs(one) || compareNames(one, other),
  lease: (one, other) => leaseMs(other) - leaseMs(one) || compareNames(one, other),
  waiting: (one, other) => countWaiters(other) - countWaiters(one) || compareNames(one, other),
}

function compareNames(one: LockRow, other: LockRow): number {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0
}

/** The longest hold. An unlisted holder has held the lock for at least as long as it has been seen. */
function heldMs({ holders }: LockRow): number {
  return Math.max(-1, ...holders.map(({ heldMs, seenMs }) => heldMs ?? seenMs))
}

/** Without expiry comes before any lease; finite, so that two can be compared. */
function leaseMs({ remainingLeaseMs }: LockRow): number {
  return remainingLeaseMs ?? Number.MAX_SAFE_INTEGER
}

function locksReply(sampler: Sampler, query: URLSearchParams): LocksReply {
  const pattern = (query.get('match') ?? '').slice(0, MAX_PATTERN)
  const [, minus, by = ''] = /^(-?)(name|held|lease|waiting)$/.exec(query.get('sort') ?? '') ?? []
  const order = ORDERS[by as LockSort] ?? ORDERS.name
  const found = sampler.rows().filter(({ name }) => matches(name, pattern))
  found.sort(minus ? (one, other) => order(other, one) : order)
  const from = Number(/^\d{1,6}$/.exec(query.get('cursor') ?? '')?.[0] ?? 0)
  const end = from + PAGE_SIZE
  return { locks: found.slice(from, end), cursor: end < found.length ? String(end) : null, totals: sampler.totals }
}

async function lockDetail(sampler: Sampler, id: string): Promise<Response> {
  await sampler.ready()
  const name = nameOf(id) ?? sampler.nameOf(id)
  if (name === undefined) return notFound()
  return json((await sampler.detail(name)) satisfies LockDetail)
}

function withHolds(clients: Awaited<ReturnType<FleetSource['clients']>>, sampler: Sampler): ClientsReply['clients'] {
  const holds = new Map<string, number>()
  for (const { holders } of sampler.locks) {
    for (const { client } of holders) if (client) holds.set(client.id, (holds.get(client.id) ?? 0) + 1)
  }
  return clients.map((client) => ({ ...client, holds: holds.get(client.id) ?? 0 }))
}

function deadlocksReply({ deadlocks: { cycles, suspected, doubts } }: Sampler): DeadlocksReply {
  const rowOf = ({ locks, ...cycle }: Cycle): DeadlockRow => ({
    ...cycle,
    locks: locks.map((name) => ({ id: idOf(name), name: shown(name) })),
  })
  return { cycles: cycles.map(rowOf), suspected: suspected.map(rowOf), doubts }
}

function auditReply(entries: readonly AuditEntry[]): AuditReply {
  return {
    entries: entries.map(({ time, lock, holder, by, reason = '', outcome }) => ({
      at: time,
      lock: shown(lock),
      holder,
      by,
      reason,
      outcome,
    })),
  }
}

async function stream({ sampler, streams, title, readOnly }: Parts): Promise<Response> {
  await sampler.ready()
  if (streams.isFull) return refusal(503, 'too-many-pages', 'too many pages are open')
  return new Response(streams.open({ title, readOnly }), {
    // A proxy must neither store it nor wait for its end.
    headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
  })
}

async function unlock({ fleet, sampler }: Parts, { request, by }: Call): Promise<Response> {
  const wanted = await readUnlock(request)
  if (typeof wanted === 'string') return refusal(400, 'bad-request', wanted)
  const { id, anyway = false, ...options } = wanted
  const name = nameOf(id) ?? sampler.nameOf(id)
  if (name === undefined) return refusal(404, 'not-found', 'this lock is not known; reload the page')
  const { outcome, holder } = await fleet.forceUnlock(name, { ...options, anyway, by })
  return json({ outcome, ...(holder && { holder: holder.holder }) } satisfies UnlockReply)
}

// createDashboard: authorizes requests, finds their route.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ConfigError } from '../errors.js'
import { type Clock, SystemClock } from '../util/clock.js'
import { withoutSecrets } from '../util/secrets.js'
import { checkOptionalBoolean, ownOptions } from '../util/validate.js'
import { hostnameOf, refusal, refuseHost, secured } from './guard.js'
import { arrivalOf, send } from './node.js'
import { Page } from './page.js'
import { handle, notFound, type Parts, type Route, routesOf } from './routes.js'
import { type FleetSource, Sampler } from './sampler.js'
import { Streams } from './stream.js'

export type {
  AuditReply,
  AuditRow,
  Changes,
  ClientsReply,
  DeadlockRow,
  DeadlocksReply,
  ErrorReply,
  History,
  HolderRow,
  JobsReply,
  LockDetail,
  LockRow,
  LockSort,
  LocksReply,
  Outage,
  Segment,
  Snapshot,
  StreamMessage,
  Totals,
  UnlockReply,
  UnlockRequest,
  WaiterRow,
} from './api.js'

/** Where a request came from, as far as the server knows it. */
export interface RequestOrigin {
  /** The address of the peer; '' if not known. */
  readonly address: string
  /** The request of Node, with what the application has added to it, such as a session. Missing with `fetch`. */
  readonly incoming?: IncomingMessage
}

/** Let in, under a name for the audit if there is one; false: 401; or the response to send instead. */
export type Authorization = boolean | { readonly by: string } | Response

export interface DashboardOptions {
  /** Whose fleet is shown: a `Client`. It stays open when the dashboard closes. */
  readonly client: { readonly fleet: FleetSource }
  /**
   * Called for every request of data or of a forced release, not for the page's own files, which contain no data. May be
   * asynchronous. An open stream is authorized again every 15 minutes.
   */
  readonly authorize: (request: Request, origin: RequestOrigin) => Authorization | Promise<Authorization>
  /** Without the route that releases locks by force. Default false. */
  readonly readOnly?: boolean
  /** Where it is mounted, such as `/locks`, unless Express provides it. Default '', at the root. */
  readonly basePath?: string
  /** Names under which it may be requested, without ports. Default: all, as the application has its own check. */
  readonly hosts?: readonly string[]
  /** The heading of the page. Default ''. */
  readonly title?: string
}

/** The parts that tests replace. */
export interface Seams {
  /** The folder of the page, its URL with a slash at its end. */
  readonly pageFolder?: URL
  readonly clock?: Clock
}

export interface Dashboard {
  /**
   * For Hono, Next and other servers with Web-standard requests.
   * @param origin  for `authorize` and the audit
   */
  fetch(request: Request, origin?: RequestOrigin): Promise<Response>
  /** For node:http, Express, Nest and Fastify. */
  node(request: IncomingMessage, response: ServerResponse): void
  /** Ends all streams and the sampling. The client stays open. */
  close(): void
}

/**
 * The dashboard as a part of an application of your own: who holds which lock, since when and for what, who is waiting, and
 * a forced release.
 * @example
 * const dashboard = createDashboard({ client, authorize: (request) => isOperator(request) })
 * app.use('/locks', dashboard.node)
 * @throws {ConfigError} an option is invalid
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  return new MountedDashboard(options)
}

const KNOWN = { client: 0, authorize: 0, readOnly: 0, basePath: 0, hosts: 0, title: 0 }

/** @internal */
export class MountedDashboard implements Dashboard {
  readonly #authorize: DashboardOptions['authorize']
  readonly #routes: readonly Route[]
  readonly #basePath: string
  readonly #hosts: ReadonlySet<string> | undefined
  readonly #parts: Parts

  constructor(options: DashboardOptions, seams: Seams = {}) {
    const { client, authorize, readOnly, basePath = '', hosts, title = '' } = ownOptions(options, KNOWN)
    if (!client?.fleet) throw new ConfigError('client', client, 'a client from connect()')
    if (typeof authorize !== 'function') throw new ConfigError('authorize', authorize, 'a function')
    this.#authorize = authorize
    this.#basePath = checkBasePath(basePath)
    this.#hosts = hosts && new Set(hosts.map(checkHost))
    const { pageFolder = new URL('./page/', import.meta.url), clock = new SystemClock() } = seams
    const sampler = new Sampler(client.fleet, clock)
    this.#parts = {
      fleet: client.fleet,
      sampler,
      streams: new Streams(sampler, clock),
      page: new Page(pageFolder),
      title,
      readOnly: checkOptionalBoolean('readOnly', readOnly) ?? false,
    }
    this.#routes = routesOf(this.#parts)
  }

  readonly fetch = async (request: Request, origin: RequestOrigin = { address: '' }): Promise<Response> =>
    secured(await this.#reply(request, this.#basePath, origin))

  readonly node = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    // Reading a request fails if its sender has left.
    this.#serve(incoming, outgoing).catch(() => outgoing.destroy())
  }

  close(): void {
    this.#parts.streams.close()
    this.#parts.sampler.close()
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const arrival = await arrivalOf(incoming)
    const reply =
      arrival instanceof Response
        ? arrival
        : await this.#reply(arrival.request, arrival.basePath ?? this.#basePath, arrival)
    await send(secured(reply), outgoing)
  }

  async #reply(request: Request, basePath: string, origin: RequestOrigin): Promise<Response> {
    const wrongHost = refuseHost(request, this.#hosts)
    if (wrongHost) return wrongHost
    const { pathname, searchParams } = new URL(request.url)
    // The page's own addresses are relative to the slash.
    if (pathname === basePath) return moved(basePath)
    if (!pathname.startsWith(`${basePath}/`)) return notFound()
    const path = pathname.slice(basePath.length)
    const fitting = this.#routes.filter((route) => route.path.test(path))
    const route = fitting.find(({ method }) => method === request.method)
    const by = route?.isPublic ? '' : await this.#callerOf(request, origin)
    if (by instanceof Response) return by
    if (route) {
      const [, rest = ''] = route.path.exec(path) ?? []
      return await handle(route, { request, query: searchParams, rest, by })
    }
    if (fitting.length === 0) return notFound()
    const allow = fitting.map(({ method }) => method).join(', ')
    return refusal(405, 'method-not-allowed', `only ${allow}`, { allow })
  }

  /** @returns the name for the audit, or the response that refuses the request */
  async #callerOf(request: Request, origin: RequestOrigin): Promise<string | Response> {
    let caller: Authorization
    try {
      caller = await this.#authorize(request, origin)
    } catch (error) {
      const failure = withoutSecrets(error)
      process.emitWarning(failure instanceof Error ? failure : String(failure))
      return refusal(500, 'unavailable', 'the application failed to authorize the request')
    }
    if (caller instanceof Response) return caller
    const name = caller === true ? 'dashboard' : caller === false ? undefined : caller?.by
    // Nothing that is merely truthy.
    if (typeof name !== 'string') return refusal(401, 'unauthorized', 'not authorized')
    return origin.address ? `${name} from ${origin.address}` : name
  }
}

/** To the slash at its end. Relative, as a proxy may add a prefix that only the browser knows. */
function moved(basePath: string): Response {
  return new Response(null, {
    status: 308,
    headers: { location: `./${basePath.slice(basePath.lastIndexOf('/') + 1)}/` },
  })
}

function checkBasePath(path: unknown): string {
  if (typeof path === 'string' && /^(\/[\w.~-]+)*$/.test(path)) return path
  throw new ConfigError('basePath', path, 'a path such as /locks, without a slash at its end')
}

function checkHost(host: unknown): string {
  const name = typeof host === 'string' ? hostnameOf(host) : undefined
  if (name !== undefined) return name
  throw new ConfigError('hosts', host, 'names of hosts')
}

// Warns of a program that opens one client after the other.
import type { RedisPort } from './adapters/port.js'
import type { Client } from './client.js'
import type { Deployment } from './config/deployment.js'
import { shared } from './util/shared.js'
import { manyClients } from './warnings.js'

/** From how many clients on it is worth a warning. */
const MANY = 10

/** How many are open, by the file of the program that opened them and by Redis. */
const open = shared('open-clients.1', () => ({ counts: new Map<string, number>(), hasWarned: false }))

/**
 * Counts a client until it is closed, and warns once if a file of the program has many of one Redis, such as a module that
 * is loaded again with each edit.
 * @param caller  the file that opens it. @param redis  where it connects to. undefined: it is not known
 */
export function countOpen(client: Client, caller: string | undefined, redis: string | undefined): void {
  if (caller === undefined || redis === undefined) return
  const { counts } = open
  const key = JSON.stringify([caller, redis])
  const count = (counts.get(key) ?? 0) + 1
  counts.set(key, count)
  client.whenClosed(() => {
    const left = (counts.get(key) as number) - 1
    if (left > 0) counts.set(key, left)
    else counts.delete(key)
  })
  if (count < MANY || open.hasWarned) return
  open.hasWarned = true
  client.warnSoon(manyClients(count, caller), true)
}

/**
 * The file of the program that calls a function of ours.
 * @returns undefined if the stack does not tell: it is the code of a package, or has an unknown form
 */
export function callerOf(callee: (...args: never[]) => unknown): string | undefined {
  const trace: { readonly stack?: unknown } = {}
  Error.captureStackTrace(trace, callee)
  return fileIn(trace.stack)
}

/** The first file of the program in a stack. */
export function fileIn(stack: unknown): string | undefined {
  if (typeof stack !== 'string') return undefined // a program may make it anything
  for (const line of stack.split('\n').slice(1)) {
    // A module that is loaded again may have another query each time.
    const [, file] = /^\s*at (?:[^/\\]+ \()?(?:async )?(.+?)(?:\?[^/\\]*)?:\d+:\d+\)?$/.exec(line) ?? []
    if (file !== undefined && !/^node:|[/\\]node_modules[/\\]/.test(file)) return file
  }
  return undefined
}

interface ServerOptions {
  readonly host?: unknown
  readonly port?: unknown
  readonly path?: unknown
}

/** The options of an ioredis or node-redis client. */
interface RedisOptions extends ServerOptions {
  readonly db?: unknown
  readonly database?: unknown
  readonly name?: unknown
  readonly sentinels?: readonly ServerOptions[] | null
  readonly socket?: ServerOptions
}

/** Where a client of the user connects to, without secrets; undefined: it does not say that. */
export function redisOfClient(client: unknown, port: RedisPort): string | undefined {
  if (port.isCluster) return port.serverOf?.('')
  const { options } = client as { readonly options?: RedisOptions }
  if (options === undefined) return undefined
  const { db, database, name, sentinels, socket = options } = options
  const servers = (sentinels ?? [socket]).map(({ host, port, path }) => [host, port, path])
  return JSON.stringify([servers, name, db ?? database])
}

export function redisOfDeployment({ addresses, database, sentinel }: Deployment): string {
  return JSON.stringify([
    addresses.map(({ host, port, socket }) => [host, port, socket]),
    sentinel.masterName,
    database,
  ])
}

export function redisOfUrl(href: string): string {
  return href.replace(/\/\/.*@/, '//')
}

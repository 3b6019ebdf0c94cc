/**
 * A process with a client whose tasks acquire and release locks and record what they believe they hold. Argument: how to
 * connect, as JSON. Commands: `begin` a round, `holdLong` in locks acquired now, `flap` cuts connections and opens another
 * client, `change` of the password or the address, `restored` is since when service is possible again, `end` the round.
 */
import { subscribe } from 'node:diagnostics_channel'
import dns from 'node:dns'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BaseLock, Client, Hold, LeaseLostError } from '../../../src/index.js'
import { onCommand, report } from '../../support/processes/child.js'
import { settlesWithin } from '../../support/wait-until.js'
import { randomFrom } from '../random.js'
import { countIn, nameOf, type Tally } from '../tally.js'
import { type Belief, monotonicMs } from './record.js'
import type { Change } from './topology.js'
import { APP, type Opened, wayOf } from './ways.js'

interface Command extends Change {
  readonly at: 'begin' | 'holdLong' | 'flap' | 'change' | 'restored' | 'end'
  readonly since: number
  readonly ports: readonly number[]
}

const { topology, way, addresses, options, seed } = JSON.parse(process.argv[2] ?? '')
const random = randomFrom(seed)
/** Between calls of a task, ms: the machine runs many of these processes, and the servers. */
const REST_MS = 8
/** How often a lock that nobody else wants is requested. */
const PROBE_MS = 150
const MOST_PROBES = 40
/** The hash tag puts them all on one cluster master, the one that will fail. */
const CONTENDED: readonly ((client: Client) => BaseLock)[] = [
  (client) => client.getLock('{storm}:plain'),
  (client) => client.getFencedLock('{storm}:fenced'),
  (client) => client.getFairLock('{storm}:fair'),
  (client) => client.getReadWriteLock('{storm}:written').writeLock(),
]
const WAIT_MS = 3_000
const WARM_MS = 300
/** How long after `holdLong` and `restored` every other hold is long, ms. */
const HOLD_LONG_MS = 800
/** Longer than any call may take. */
const SETTLE_MS = 25_000

/** The sockets of this process, to cut them as a network would. Not those of valkey-glide, which are not Node's. */
const sockets = new Set<Socket>()
/** The servers behind NAT, as they announce themselves. */
const unreachable = new Set(Object.keys(addresses.natMap ?? {}))
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: Socket }
  sockets.add(socket)
  socket.once('connect', () => {
    if (unreachable.has(`${socket.remoteAddress}:${socket.remotePort}`)) socket.destroy()
  })
  socket.once('close', () => sockets.delete(socket))
})
let { ip } = addresses.endpoint ?? {}
if (ip) resolveTo(addresses.endpoint.host, () => ip)
const login = { ...APP, username: way, ...(addresses.password && { password: addresses.password }) }
const open = () => wayOf(topology, way)(addresses, options, login)

let beliefs: Belief[] = []
let errors: Tally = {}
let failures: string[] = []
let isOver = true
/** Since when service is possible again. */
let since = Number.POSITIVE_INFINITY
/** The clients that were not served since: the usual one (false), the new one (true). */
const unserved = new Set<boolean>()
let holdLongUntil = 0
let running: Promise<unknown>[] = []
let probes = 0
const opened: Opened = await open()
const { client } = opened

onCommand<Command>(async (command) => {
  if (command.at === 'begin') begin()
  if (command.at === 'holdLong') holdLongUntil = monotonicMs() + HOLD_LONG_MS
  if (command.at === 'flap') flap(command.ports)
  if (command.at === 'change') await change(command)
  if (command.at === 'restored') restored(command.since)
  if (command.at === 'end') await end()
})
await waitOnce()
report({ at: 'ready' })

/** Opens the connections that only a caller needs who waits, so that they are not taken for left over. */
async function waitOnce(): Promise<void> {
  const other = await open()
  const name = `{storm}:own:${process.pid}`
  const held = await other.client.getLock(name).lock()
  const waiting = client.getLock(name).lock()
  await sleep(WARM_MS)
  await held.unlock()
  await (await waiting).unlock()
  await other.end()
}

function begin(): void {
  beliefs = []
  errors = {}
  failures = []
  isOver = false
  since = Number.POSITIVE_INFINITY
  unserved.clear()
  unserved.add(false)
  running = storm(client, false)
}

function storm(client: Client, isFresh: boolean): Promise<unknown>[] {
  return [contend(client, isFresh), contend(client, isFresh), probe(client, isFresh)]
}

async function contend(client: Client, isFresh: boolean): Promise<void> {
  while (!isOver) {
    const lockOf = CONTENDED[Math.floor(random() * CONTENDED.length)] as (typeof CONTENDED)[number]
    const holdMs = lengthOfHold()
    // A frozen master may grant a lease that ended meanwhile again as soon as it continues.
    const lease = holdMs < 500 && random() < 0.5 ? { leaseTimeMs: 2_000 } : {}
    await enter(lockOf(client), { waitTimeMs: WAIT_MS, ...lease }, holdMs, isFresh)
    await sleep(REST_MS * random() * 2)
  }
}

/** Most are short. Long ones are still held when another owner is let in by mistake. */
function lengthOfHold(): number {
  if (random() < (monotonicMs() < holdLongUntil ? 0.5 : 0.01)) return 1_000 + random() * 2_000
  return random() < 0.1 ? 20 + random() * 80 : 1 + random() * 3
}

/** Requests locks that nobody else wants, whether or not earlier calls have returned: is this client served? */
async function probe(client: Client, isFresh: boolean): Promise<void> {
  const calls = new Set<Promise<void>>()
  while (!isOver) {
    if (calls.size < MOST_PROBES) {
      const lock = client.getLock(`{storm}:own:${process.pid}:${probes++}`)
      const call = enter(lock, { waitTimeMs: WAIT_MS }, 0, isFresh).finally(() => calls.delete(call))
      calls.add(call)
    }
    await sleep(PROBE_MS)
  }
  await Promise.all(calls)
}

async function enter(lock: BaseLock, terms: object, holdMs: number, isFresh: boolean): Promise<void> {
  const askedAt = monotonicMs()
  try {
    await lock.withLock(terms, (hold) => believe(hold, askedAt, holdMs, isFresh))
  } catch (error) {
    note(error)
  }
}

function note(error: unknown): void {
  countIn(errors, nameOf(error))
}

/** Works under the lock for as long as it is held, by its signal and its remaining time. */
async function believe(hold: Hold, askedAt: number, holdMs: number, isFresh: boolean): Promise<void> {
  const from = monotonicMs()
  let validUntil = from
  let to = Number.POSITIVE_INFINITY
  hold.signal.addEventListener('abort', () => {
    const { reason } = hold.signal.reason as LeaseLostError
    // A busy process runs the timer late; the remaining time is more accurate.
    to = reason === 'expired' ? Math.min(validUntil, monotonicMs()) : monotonicMs()
  })
  while (!hold.signal.aborted) {
    validUntil = monotonicMs() + hold.remainingMs()
    const restMs = from + holdMs - monotonicMs()
    if (restMs <= 0) break
    await sleep(Math.min(restMs, 10))
  }
  to = Math.min(to, monotonicMs())
  const { lockName: lock, holder, fencingToken } = hold
  const token = fencingToken === undefined ? {} : { token: String(fencingToken) }
  const lost = hold.signal.aborted ? { lost: (hold.signal.reason as LeaseLostError).reason } : {}
  beliefs.push({ lock, way, isFresh, askedAt, from, to: Math.max(from, to), holder, ...token, ...lost })
  if (askedAt >= since && unserved.delete(isFresh) && unserved.size === 0) report({ at: 'served' })
}

function flap(ports: readonly number[]): void {
  for (const socket of sockets) {
    const { remotePort = 0 } = socket
    if (ports.includes(remotePort)) socket.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))
  }
  unserved.add(true)
  running.push(joinIn())
}

async function change({ password, ip: next = ip }: Change): Promise<void> {
  ip = next
  if (password === undefined) return
  login.password = password
  await opened.setPassword?.(password)
}

/** Redis clients that use Node's sockets resolve names by these functions, also when they reconnect. */
function resolveTo(name: string, current: () => string): void {
  const { lookup, promises } = dns
  const { lookup: lookUp } = promises
  dns.lookup = ((host: string, options: dns.LookupOptions, done: (...answer: unknown[]) => void) => {
    if (host !== name) return lookup(host, options, done)
    const found = { address: current(), family: 4 }
    done(null, ...(options.all ? [[found]] : Object.values(found)))
  }) as typeof lookup
  promises.lookup = (async (host: string, options: dns.LookupOptions) =>
    host === name ? { address: current(), family: 4 } : await lookUp(host, options)) as typeof lookUp
}

function restored(at: number): void {
  since = at
  holdLongUntil = monotonicMs() + HOLD_LONG_MS
}

/** Another client, which connects during the fault, perhaps to a server that does not reply. */
async function joinIn(): Promise<void> {
  while (!isOver) {
    try {
      const fresh = await open()
      await Promise.all(storm(fresh.client, true))
      await fresh.end()
    } catch (error) {
      note(error)
      await sleep(200)
    }
  }
}

async function end(): Promise<void> {
  isOver = true
  const outcome = await settlesWithin(Promise.all(running), SETTLE_MS).catch((error: Error) => error)
  if (outcome instanceof Error) failures.push(`${way}: a call never settled`)
  report({ at: 'record', beliefs, errors, failures })
}

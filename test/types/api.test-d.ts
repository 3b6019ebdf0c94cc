/** What the types promise. Compiled with the tests, and never run. */
import { subscribe } from 'node:diagnostics_channel'
import type { Redis as UpstashRedis } from '@upstash/redis'
import type { GlideClient, GlideClusterClient } from '@valkey/valkey-glide'
import type { Redis } from 'ioredis'
import type { createClient } from 'redis'
import { http } from '../../src/adapters/http/port.js'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { nodeRedis } from '../../src/adapters/node-redis/port.js'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import {
  type Client,
  type ClientEvents,
  connect,
  type Election,
  type ForceUnlockResult,
  getMultiLock,
  type Hold,
  type Holder,
  type HolderInfo,
  type HoldfastChannels,
  type KnownHolder,
  LeaseLostError,
  type Lock,
  LockError,
  type LockErrorCode,
  type LockedCallback,
  type LossReason,
  type MaybeRan,
  OutcomeUnknownError,
  type RedisPort,
  WaitTimeoutError,
} from '../../src/index.js'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only if both types are the same. */
function expectSame<A, B>(_same: Same<A, B>): void {}

type NodeRedisClient = ReturnType<typeof createClient>

declare const client: Client
declare const lock: Lock
declare const hold: Hold

export async function connecting(redis: Redis, nodeRedisClient: ReturnType<typeof createClient>, port: RedisPort) {
  expectSame<Awaited<ReturnType<typeof connect>>, Client>(true)
  await connect('redis://127.0.0.1:6379')
  await connect({ url: 'rediss://127.0.0.1', lockWatchdogTimeoutMs: 30_000, commandTimeoutMs: 3_000 })
  await connect({ url: 'redis://127.0.0.1', lazy: true })
  await connect({ client: redis, maxHoldMs: 60_000, warnAfterMs: undefined })
  await connect({ client: nodeRedisClient })
  await connect({ client: port })
  await connect({ url: 'redis://127.0.0.1', watchdog: { thread: new URL('file:///a.js'), maxBlockMs: 120_000 } })
  await connect({ client: port, watchdog: { thread: true, connection: 'redis://127.0.0.1' } })
  // @ts-expect-error a misspelt option
  await connect({ url: 'redis://127.0.0.1', watchdog: { threads: true } })
  await connect()
  await connect({ config: 'redisson.yaml', credentialsResolver: async ({ host }) => ({ password: host }) })
  await connect({
    config: { singleServerConfig: { address: 'redis://127.0.0.1:6379', database: 1 }, lockWatchdogTimeout: 30_000 },
    nameMapper: { map: (name) => `app:${name}`, unmap: (key) => key.slice(4) },
  })
  // @ts-expect-error: no key of Redisson
  await connect({ config: { singleServerConfig: { url: 'redis://127.0.0.1:6379' } } })
  expectSame<ReturnType<typeof ioredis>, RedisPort>(true)
  await connect({ client: ioredis(redis) })
  await connect({ client: nodeRedis(nodeRedisClient) })

  // @ts-expect-error: a misspelt option
  await connect({ url: 'redis://127.0.0.1', lockWatchdogTimeout: 30_000 })
  // @ts-expect-error: a duration is a number of ms
  await connect({ url: 'redis://127.0.0.1', commandTimeoutMs: '3s' })
  // @ts-expect-error: some other object
  await connect({ client: new Map() })
  // @ts-expect-error: the adapter of another library
  ioredis(nodeRedisClient)
  // @ts-expect-error: the adapter of another library
  nodeRedis(redis)
}

export async function connectingGlide(
  glide: GlideClient,
  cluster: GlideClusterClient,
  nodeRedisClient: NodeRedisClient,
) {
  expectSame<ReturnType<typeof valkeyGlide>, RedisPort>(true)
  await connect({ client: glide })
  await connect({ client: cluster })
  await connect({ client: valkeyGlide(glide, { subscriber: async () => glide }) })
  await connect({ client: valkeyGlide(cluster, { subscriber: async () => cluster }) })
  // @ts-expect-error: how to make it, not the client itself
  valkeyGlide(glide, { subscriber: glide })
  // @ts-expect-error: the adapter of another library
  valkeyGlide(nodeRedisClient)
  // @ts-expect-error: the adapter of another library
  ioredis(glide)
}

export async function connectingOverHttp(redis: UpstashRedis, nodeRedisClient: NodeRedisClient) {
  expectSame<ReturnType<typeof http>, RedisPort>(true)
  await connect({ client: redis })
  await connect({ client: http(redis) })
  await connect({ client: http({ url: 'https://127.0.0.1', token: 'secret' }) })
  // @ts-expect-error: an address needs a token
  http({ url: 'https://127.0.0.1' })
  // @ts-expect-error: a client of another library
  http(nodeRedisClient)
}

export async function locking() {
  expectSame<ReturnType<Client['getLock']>, Lock>(true)
  expectSame<ReturnType<Lock['lock']>, Promise<Hold>>(true)
  expectSame<ReturnType<Lock['tryLock']>, Promise<Hold | null>>(true)
  await lock.lock({ leaseTimeMs: 1, waitTimeMs: 0, maxHoldMs: 1, warnAfterMs: 1, label: 'a', within: hold })
  await lock.tryLock({ signal: AbortSignal.timeout(1_000), leaseTimeMs: undefined })

  await getMultiLock(lock).unlock()
  for await (const { state, holders } of lock.watch({ signal: AbortSignal.timeout(1_000) })) {
    expectSame<typeof state, 'held' | 'free'>(true)
    expectSame<typeof holders, readonly Holder[]>(true)
  }
  // @ts-expect-error a lock made of others has no state of its own
  getMultiLock(lock).watch()
  const maybe = await lock.tryLock()
  // @ts-expect-error: it may be null
  await maybe.unlock()
  await maybe?.unlock()

  // @ts-expect-error: Redisson's way to say it
  await lock.tryLock(100, 10_000)
  // @ts-expect-error: a misspelt option
  await lock.lock({ leaseTime: 10_000 })
  // @ts-expect-error: a duration is a number of ms
  await lock.lock({ leaseTimeMs: 10n })
  // @ts-expect-error: not a signal
  await lock.lock({ signal: new AbortController() })
  // @ts-expect-error: a holder is no hold
  await lock.lock({ within: hold.holder })
  // @ts-expect-error: only withLock releases by itself, so only it has an outcome
  await lock.lock({ onRelease: () => {} })
  // @ts-expect-error: neither 'await' nor 'background'
  await lock.withLock({ release: 'later' }, () => {})
  // @ts-expect-error: a lock has a name
  client.getLock()
  // @ts-expect-error: a name is text
  client.getLock(1001)
}

export async function guarding() {
  const body = (guard: Hold) => guard.count
  expectSame<LockedCallback<number>, (hold: Hold) => number | PromiseLike<number>>(true)
  const number = lock.withLock(body)
  const text = lock.withLock({ waitTimeMs: 1_000 }, async () => 'done')
  const nothing = lock.withLock(() => {})
  const either = lock.withLock(async (guard) => (guard.count > 1 ? guard.holder : undefined))
  expectSame<typeof number, Promise<number>>(true)
  expectSame<typeof text, Promise<string>>(true)
  expectSame<typeof nothing, Promise<void>>(true)
  expectSame<typeof either, Promise<string | undefined>>(true)
  await lock.withLock(
    { onAcquire: (guard) => guard.assertHeld(), onRelease: async () => {}, release: 'background' },
    body,
  )

  const outcome = await lock.tryWithLock({ leaseTimeMs: 1_000 }, async () => 42)
  expectSame<typeof outcome, MaybeRan<number>>(true)
  expectSame<typeof outcome.value, number | undefined>(true)
  if (outcome.ran) expectSame<typeof outcome.value, number>(true)
  else expectSame<typeof outcome.value, undefined>(true)
  const { ran, value } = outcome
  if (ran) expectSame<typeof value, number>(true)
  else expectSame<typeof value, undefined>(true)

  const short = client.withLock('a', async (guard) => guard.count)
  const several = client.withLock(['a', 'b'] as const, { waitTimeMs: 1_000 }, () => 'done')
  expectSame<typeof short, Promise<number>>(true)
  expectSame<typeof several, Promise<string>>(true)
  // @ts-expect-error: without a body
  await client.withLock('a')
  // @ts-expect-error: the options come second
  await client.withLock('a', body, { waitTimeMs: 1_000 })

  await lock.tryWithLock({ atLeastMs: 60_000 }, body)
  // @ts-expect-error: only a function has a beginning from which the time counts
  await lock.lock({ atLeastMs: 60_000 })

  // @ts-expect-error: without a body
  await lock.withLock({ waitTimeMs: 1_000 })
  // @ts-expect-error: the options come first
  await lock.withLock(body, { waitTimeMs: 1_000 })
  // @ts-expect-error: a misspelt option
  await lock.tryWithLock({ waitTime: 1_000 }, body)
}

export async function holding() {
  await using released = await lock.lock()
  await using maybe = await lock.tryLock()
  await using opened = await connect('redis://127.0.0.1:6379')
  released.assertHeld()
  maybe?.assertHeld()
  opened.getLock('a')

  // @ts-expect-error: a release takes time, so it has to be awaited
  using _hold = hold

  expectSame<typeof hold.lockName, string>(true)
  expectSame<typeof hold.holder, string>(true)
  expectSame<typeof hold.ownerId, number>(true)
  expectSame<typeof hold.count, number>(true)
  expectSame<typeof hold.acquiredAt, number>(true)
  expectSame<typeof hold.label, string | undefined>(true)
  expectSame<typeof hold.signal, AbortSignal>(true)
  expectSame<ReturnType<Hold['remainingMs']>, number>(true)
  expectSame<ReturnType<Hold['assertHeld']>, void>(true)
  expectSame<ReturnType<Hold['isHeld']>, Promise<boolean>>(true)
  expectSame<ReturnType<Hold['unlock']>, Promise<void>>(true)
  expectSame<ReturnType<Hold['handOver']>, string>(true)
  expectSame<ReturnType<Hold['extend']>, Promise<void>>(true)
  // @ts-expect-error: what a hold says is not for writing
  hold.lockName = 'b'
  await fetch('https://shop.example', { signal: hold.signal })
}

export async function inspecting() {
  expectSame<ReturnType<Lock['isLocked']>, Promise<boolean>>(true)
  const wasHeld = lock.forceUnlock()
  expectSame<typeof wasHeld, Promise<boolean>>(true)
  const broken = lock.forceUnlock({ holder: 'a:1', graceMs: 1, reason: 'r', by: 'b', anyway: true, quarantineMs: 1 })
  expectSame<typeof broken, Promise<ForceUnlockResult>>(true)
  expectSame<ReturnType<Lock['getHolders']>, Promise<readonly Holder[]>>(true)
  expectSame<ReturnType<Lock['remainingLeaseMs']>, Promise<number>>(true)
  expectSame<ReturnType<Lock['getHoldCount']>, Promise<number>>(true)
  expectSame<ReturnType<Lock['isHeldByCurrentOwner']>, Promise<boolean>>(true)
  expectSame<ReturnType<Lock['unlock']>, Promise<void>>(true)
  expectSame<ReturnType<Client['adopt']>, Promise<Hold>>(true)
  await client.adopt('a', hold.handOver(), { leaseTimeMs: 1_000 })
  // @ts-expect-error: an adoption does not wait
  await client.adopt('a', hold.holder, { waitTimeMs: 1_000 })

  const inScope = client.runInScope(async () => 'done')
  expectSame<typeof inScope, Promise<string>>(true)
  expectSame<ReturnType<Client['closeOnSignals']>, () => void>(true)
  await client.close({ drainMs: 1_000 })
  client.closeOnSignals({ drainMs: 1_000, before: async () => 'done' })
  // @ts-expect-error: only signals come before anything
  await client.close({ before: () => {} })
  // @ts-expect-error: a misspelt option
  await client.close({ drain: 1_000 })
}

export async function electing() {
  const election = client.elect('a', {
    onElected: async (signal, { fencingToken }) => {
      expectSame<typeof signal, AbortSignal>(true)
      expectSame<typeof fencingToken, bigint>(true)
    },
    onLost: (error) => expectSame<typeof error, LeaseLostError>(true),
  })
  expectSame<typeof election, Election>(true)
  expectSame<typeof election.isLeader, boolean>(true)
  expectSame<typeof election.finished, Promise<void>>(true)
  await election.resign()
  // @ts-expect-error: nobody would do the work
  client.elect('a', { onLost: () => {} })
  // @ts-expect-error: the watchdog renews leadership
  client.elect('a', { onElected: () => {}, leaseTimeMs: 1_000 })
}

export function listening() {
  client.on('lost', ({ hold, error }) => {
    expectSame<typeof hold, Hold>(true)
    expectSame<typeof error, LeaseLostError>(true)
    expectSame<typeof error.reason, LossReason>(true)
  })
  client.on('longWait', (wait) => {
    expectSame<typeof wait.lockName, string>(true)
    expectSame<typeof wait.label, string | undefined>(true)
    expectSame<typeof wait.waitedMs, number>(true)
    expectSame<typeof wait.heldBy, string | undefined>(true)
    expectSame<typeof wait.holders, readonly KnownHolder[]>(true)
    expectSame<typeof wait.position, number | undefined>(true)
  })
  client.once('longHold', ({ hold, heldMs }) => {
    expectSame<typeof hold, Hold>(true)
    expectSame<typeof heldMs, number>(true)
  })
  client.on('warning', (warning) => expectSame<typeof warning, Error>(true))
  client.on('acquired', ({ hold, waitedMs, path }) => {
    expectSame<typeof hold, Hold>(true)
    expectSame<typeof waitedMs, number>(true)
    expectSame<typeof path, 'direct' | 'wait' | 'handoff' | 'reentry'>(true)
  })
  client.on('released', ({ hold, heldMs, path }) => {
    expectSame<typeof hold, Hold>(true)
    expectSame<typeof heldMs, number>(true)
    expectSame<typeof path, 'released' | 'handed_off' | 'transferred'>(true)
  })
  subscribe('holdfast:request:grant' satisfies keyof HoldfastChannels, (message) => {
    const { clientId, path, waitedMs } = message as HoldfastChannels['holdfast:request:grant']
    expectSame<typeof clientId, string>(true)
    expectSame<typeof path, 'direct' | 'wait' | 'handoff' | 'reentry' | undefined>(true)
    expectSame<typeof waitedMs, number>(true)
  })
  expectSame<keyof ClientEvents, 'acquired' | 'released' | 'lost' | 'longWait' | 'longHold' | 'warning'>(true)
  // @ts-expect-error: what a loss reports is read-only
  client.on('lost', (loss) => (loss.hold = hold))
  // @ts-expect-error: the payload of another event
  client.on('longWait', ({ hold }) => hold)
}

export function failing(error: unknown) {
  if (!(error instanceof LockError)) return
  expectSame<typeof error.code, LockErrorCode>(true)
  expectSame<typeof error.lockName, string | undefined>(true)
  if (error instanceof OutcomeUnknownError) expectSame<typeof error.code, 'LOCK_OUTCOME_UNKNOWN'>(true)
  if (error instanceof LeaseLostError) expectSame<typeof error.code, 'LOCK_LEASE_LOST'>(true)
  if (error instanceof WaitTimeoutError) {
    expectSame<typeof error.holders, readonly KnownHolder[]>(true)
    expectSame<typeof error.position, number | undefined>(true)
    expectSame<KnownHolder['heldMs'], number | undefined>(true)
    expectSame<KnownHolder['status'], HolderInfo['status'] | undefined>(true)
  }
  // @ts-expect-error: a code that no error has
  if (error.code === 'LOCK_BROKEN') return
  // @ts-expect-error: it is abstract
  new LockError('a')
}

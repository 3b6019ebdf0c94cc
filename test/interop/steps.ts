import assert from 'node:assert/strict'
import type { Hold } from '../../src/index.js'
import { measureLateness } from '../support/lateness.js'
import { assertInTime, settlesWithin, sleep, waitUntil } from '../support/wait-until.js'
import { type Admin, WATCHDOG_MS } from './backend.js'
import type { CaseContext } from './case-context.js'
import type { LockFixture } from './fixture.js'
import { holdersOf } from './node-lock.js'
import { JavaError, type JavaOwner, text } from './redisson.js'

/** More than any watchdog's lease here: what sleeps until it ends has not been woken. */
export const LONG_LEASE_MS = 60_000
export const WOKEN_MS = 100
/** A woken waiter has it by then, even on a busy machine; one that was not polls after 5 s, or waits for the lease. */
export const PROMPT_MS = 4_000
/** After Redis has confirmed a subscription that was renewed, Redisson takes a while until it passes messages on. */
export const RESUBSCRIBED_MS = 1_000
const HAND_OVERS = 9
const MOST_SERIES = 3

/** A thread of Java holds the lock: nobody else gets it, in Node or Java. Then Node does. */
export async function javaExcludes(fixture: LockFixture, java: JavaOwner, name = fixture.name): Promise<void> {
  await java.lock()
  assert.equal(await fixture.node(name).isLocked(), true)
  for (const rival of fixture.rivals) {
    const node = rival.node(name)
    assert.equal(await node.tryLock(), null)
    assert.equal(await node.tryLock({ waitTimeMs: 50 }), null)
    assert.equal(await (await rival.oneJava(name)).tryLock(), false)
  }
  await java.unlock()
  for (const rival of fixture.rivals) await isFree(rival.node(name).tryLock())
}

/** A task of Node holds the lock: no thread of Java gets it, nor another task. Then Java does. */
export async function nodeExcludes(fixture: LockFixture, name = fixture.name): Promise<void> {
  const hold = await fixture.node(name).lock()
  const inJava = await fixture.oneJava(name)
  await waitUntil(() => inJava.isLocked(), { message: 'Java sees that it is locked' })
  for (const rival of fixture.rivals) {
    const java = await rival.oneJava(name)
    assert.equal(await java.tryLock(), false)
    assert.equal(await java.tryLock(50), false)
    assert.equal(await rival.node(name).tryLock(), null)
  }
  await hold.unlock()
  for (const rival of fixture.rivals) {
    const java = await rival.oneJava(name)
    assert.equal(await java.tryLock(), true)
    assert.equal(await java.isHeldByCurrentThread(), true)
    assert.equal(await fixture.node(name).tryLock(), null)
    await java.unlock()
    assert.equal(await java.isLocked(), false)
  }
}

export async function isFree(taking: Promise<Hold | null>): Promise<void> {
  const hold = await taking
  assert.ok(hold, 'it is free')
  await hold.unlock()
}

/** How long it takes from Java's unlock until a waiter in Node has the lock, ms. */
export async function toNode(
  fixture: LockFixture,
  rival: LockFixture,
  java: JavaOwner,
  name = fixture.name,
): Promise<number> {
  await java.lock(LONG_LEASE_MS)
  const waiter = rival.node(name).lock()
  await rival.hasWaiter('node', name)
  const startedAt = performance.now()
  await java.unlock()
  const hold = await waiter
  const tookMs = performance.now() - startedAt
  await hold.unlock()
  return tookMs
}

/** How long it takes from Node's unlock until a waiter in Java has the lock, ms. */
export async function toJava(
  fixture: LockFixture,
  rival: LockFixture,
  java: JavaOwner,
  name = fixture.name,
): Promise<number> {
  const hold = await fixture.node(name).lock({ leaseTimeMs: LONG_LEASE_MS })
  const waiter = java.lock()
  await rival.hasWaiter('java', name)
  const startedAt = performance.now()
  await hold.unlock()
  await waiter
  const tookMs = performance.now() - startedAt
  await java.unlock()
  return tookMs
}

/** That the median of a series of hand-overs is in time. A series in which our own timers were late, too, is repeated. */
export async function measure(handOver: () => Promise<number>): Promise<string> {
  await handOver() // warms up
  const notes: string[] = []
  for (;;) {
    const latenessMs = measureLateness()
    const tookMs: number[] = []
    for (let round = 0; round < HAND_OVERS; round++) tookMs.push(await handOver())
    const lateMs = latenessMs()
    const sorted = tookMs.toSorted((a, b) => a - b)
    const median = sorted[Math.floor(HAND_OVERS / 2)] ?? Number.NaN
    const note = `median ${median.toFixed(1)} ms, longest ${(sorted.at(-1) ?? 0).toFixed(1)} ms`
    if (median <= WOKEN_MS) return [...notes, note].join('; again: ')
    notes.push(`${note}, while timers were ${lateMs.toFixed(1)} ms late in all`)
    assertInTime(lateMs > WOKEN_MS && notes.length < MOST_SERIES, notes.join('; again: '))
  }
}

/** That Node sees these holders, each with this hold count. */
export async function nodeSees(fixture: LockFixture, holders: readonly string[], holdCount: number): Promise<void> {
  const expected = holders.map((holder) => ({ holder, holdCount }))
  await becomes(() => fixture.node().getHolders(), expected)
}

/** That Java sees this holder on each server, with this hold count. */
export async function javaSees(fixture: LockFixture, hold: Hold, holdCount: number): Promise<void> {
  const counts = async () => await Promise.all(fixture.backends.map((_, index) => countInJava(fixture, hold, index)))
  await becomes(
    counts,
    fixture.backends.map(() => String(holdCount)),
  )
}

/** The hold count on one server, or null. The last server of a red lock may be a little late. */
async function countInJava(fixture: LockFixture, hold: Hold, index: number): Promise<unknown> {
  const { clients, redissons } = fixture.site
  const holder = holdersOf(hold).find((one) => one.startsWith(`${clients[index]?.id}:`))
  if (holder === undefined) return null
  const fields = await redissons[index]?.get('getMap', text(fixture.name))
  return await fields?.call('counter', 'get', text(fixture.kind.field?.(holder) ?? holder))
}

/** That it becomes this in time. */
export async function becomes<T>(actual: () => Promise<T>, expected: T, timeoutMs = 10_000): Promise<void> {
  let seen: T | undefined
  const isEqual = async () => {
    seen = await actual()
    try {
      assert.deepEqual(seen, expected)
      return true
    } catch {
      return false
    }
  }
  await waitUntil(isEqual, { timeoutMs, message: () => `${JSON.stringify(seen)} = ${JSON.stringify(expected)}` })
}

/** Watches the TTL of what this holder has for some periods of the watchdog. */
export async function ttlPattern(
  fixture: LockFixture,
  name: string,
  holder: string,
  keyOutlivesMs = 0,
): Promise<string> {
  const ttls: (() => Promise<number>)[] = fixture.backends.map(
    ({ admin }) =>
      async () =>
        (await admin.pttl(name)) - keyOutlivesMs,
  )
  const also = fixture.kind.alsoRenewed?.(name, holder)
  if (also) ttls.push(() => leftOf(fixture.backend.admin, also))
  return (await Promise.all(ttls.map(onePattern))).join(' and ')
}

/** Of a key its TTL; of a field how far away the epoch in it is, ms. */
async function leftOf(admin: Admin, { key, field }: { key: string; field?: string }): Promise<number> {
  if (field === undefined) return await admin.pttl(key)
  const [seconds, microseconds] = (await admin.time()).map(Number) as [number, number]
  return Number(await admin.hget(key, field)) - Math.floor(seconds * 1_000 + microseconds / 1_000)
}

/**
 * How a TTL falls and is renewed, for some periods of the watchdog. A low is what was read last before a renewal: too high
 * if our own timers were late, too low if those of the other side were. So the lowest says how far it falls, the median
 * that this was usual, and the lowest again that no renewal was left out.
 */
export async function onePattern(ttl: () => Promise<number>): Promise<string> {
  const lows: number[] = []
  const renewed: number[] = []
  const latenessMs = measureLateness()
  const startedAt = performance.now()
  let readAt = startedAt
  let before = await ttl()
  while (readAt < startedAt + 1.5 * WATCHDOG_MS) {
    const left = await ttl()
    const now = performance.now()
    if (left > before) {
      lows.push(before)
      renewed.push(Math.min(left + now - readAt, WATCHDOG_MS)) // on a busy machine seen late
    }
    before = left
    readAt = now
    await sleep(20)
  }
  const lateMs = latenessMs()
  const lowest = Math.min(...lows, before)
  const median = lows.toSorted((a, b) => a - b)[Math.floor(lows.length / 2)] ?? Number.NaN
  const note = `${lowest} … ${Math.max(...renewed)} ms, renewed ${renewed.length} times`
  const period = WATCHDOG_MS / 3
  const why = `${note}, median of the lows ${median} ms, while timers were ${lateMs.toFixed(1)} ms late in all`
  assertInTime(lowest < WATCHDOG_MS - 0.8 * period && median > WATCHDOG_MS - 1.5 * period, why)
  assertInTime(lowest > WATCHDOG_MS - 1.9 * period - lateMs, why)
  assertInTime(renewed.length >= 3 && Math.min(...renewed) > WATCHDOG_MS - 400, why)
  return note
}

/** Kills the holder: the waiter gets the lock when the lease is over, not earlier, and within a second. */
export async function outlives(
  fixture: LockFixture,
  side: 'node' | 'java',
  kill: () => Promise<void>,
  waiter: Promise<{ unlock(): Promise<void> }>,
): Promise<string> {
  await fixture.rival.hasWaiter(side)
  const needed = fixture.kind.made?.needed ?? 1
  const left = async () => {
    const ttls = await Promise.all(fixture.backends.map(({ admin }) => admin.pttl(fixture.name)))
    return Math.min(ttls.toSorted((a, b) => a - b)[needed - 1] ?? 0, ...(await valuesLeft(fixture)))
  }
  const { value, note } = await comesAtEndOfLease(kill, left, waiter)
  await value.unlock()
  return note
}

/** What is left of each value of a multi-lock of values: by Java's clock when it renewed, so less than of the key. */
async function valuesLeft({ backend: { admin }, name: key }: LockFixture): Promise<number[]> {
  const fields = (await admin.hkeys(key)).filter((field) => field.endsWith(':expire_time'))
  return await Promise.all(fields.map((field) => leftOf(admin, { key, field })))
}

/** Kills the holder: what is waited for comes when the lease is over, not earlier, and within a second. */
export async function comesAtEndOfLease<T>(
  kill: () => Promise<void>,
  left: () => Promise<number>,
  waiter: Promise<T>,
): Promise<{ value: T; note: string }> {
  await sleep(WATCHDOG_MS / 3) // at least one renewal
  await kill()
  const killedAt = performance.now()
  await sleep(50) // what was on its way has arrived
  const readAt = performance.now() // the reply may take a while
  const ttl = await left()
  const leaseMs = readAt - killedAt + ttl
  const value = await soon(waiter, leaseMs + 1_000)
  const tookMs = performance.now() - killedAt
  assertInTime(ttl > 0, `${ttl} ms were left`)
  assert.ok(tookMs > leaseMs - 50, `after ${tookMs} ms, of ${leaseMs}`)
  return { value, note: `${Math.round(tookMs - leaseMs)} ms after the end of the lease` }
}

/** The value, if it comes in time, to which is added by how much our own timers were late. */
export async function soon<T>(promise: Promise<T>, ms: number): Promise<T> {
  const latenessMs = measureLateness()
  try {
    await settlesWithin(promise, ms)
  } catch (error) {
    await settlesWithin(promise, latenessMs()).catch(() => Promise.reject(error))
  } finally {
    latenessMs()
  }
  return await promise
}

/** The value, and that it takes about as long as the lease that it waits for. */
export async function endsIn<T>(leaseMs: number, act: () => Promise<T>): Promise<T> {
  const latenessMs = measureLateness()
  const startedAt = performance.now()
  const value = await act()
  const tookMs = performance.now() - startedAt
  const lateMs = latenessMs()
  assert.ok(value, 'it gets the lock')
  const note = `after ${tookMs} ms, while timers were ${lateMs} ms late in all`
  assert.ok(tookMs > leaseMs - 300, note)
  assertInTime(tookMs < leaseMs + 1_000 + lateMs, note)
  return value
}

/** The multi-lock of some versions wraps it in a CompletionException. */
export function isIllegalMonitorState(error: unknown): boolean {
  return (
    error instanceof JavaError && error.message.includes('java.lang.IllegalMonitorStateException: attempt to unlock')
  )
}

export const sum = (numbers: number[]): number => numbers.reduce((total, number) => total + number, 0)

/** Fails while something of the case is still there. What was forced may leave a read hold to its lease. */
export async function expectNoKeys(fixture: CaseContext): Promise<void> {
  let left: string[] = []
  const isClean = async () => {
    left = await fixture.leftKeys()
    return left.length === 0
  }
  await waitUntil(isClean, {
    timeoutMs: WATCHDOG_MS + 500,
    message: () => `no key should be left, but there is ${left.join(', ')}`,
  })
}

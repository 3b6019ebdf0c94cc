/** forceUnlock({ holder }) against holders in other processes: at work, deaf to the abort, stopped, dead. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, connect, type ForceUnlockOptions, type ForceUnlockResult, type Lock } from '../../src/index.js'
import { forcedKey, INBOX_PREFIX } from '../../src/wire/keys.js'
import { type Driver, drivers, setUpFixture } from '../support/fixture.js'
import { kindNamed } from '../support/kinds.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import type { HolderCommand, HolderReport } from '../support/processes/forced-holder-process.js'
import { spawnHoldfast } from '../support/processes/holdfast-command.js'
import { AS_ADMIN } from '../support/rights.js'
import { waitUntil } from '../support/wait-until.js'

const ORDER = { reason: 'INC-4711', by: 'ops@laptop' }
/** Breaks whose order of events is checked. */
const ROUNDS = 20
const now = (): number => performance.timeOrigin + performance.now()

describe('forceUnlock({ holder })', () => {
  const fixture = setUpFixture(drivers[0], [], { keysThatStay: /^(holdfast_|effects|redisson_lock_token)/ })

  /** An operator: a user that may write marks and the audit. */
  async function operator(): Promise<Client> {
    const url = new URL(fixture.server.url)
    Object.assign(url, AS_ADMIN)
    const client = await connect(url.href)
    fixture.onEnd(() => client.close())
    return client
  }

  /** A process that can be reached at its inbox, unless it is `off`. */
  async function holderProcess(driver = 'a URL', inspection = 'on'): Promise<Child> {
    const module = new URL('../support/processes/forced-holder-process.js', import.meta.url)
    const child = spawnChild(module, [fixture.server.url, driver, inspection])
    fixture.onEnd(() => child.stop())
    const { holder: id } = await child.nextMessage<HolderReport>(({ at }) => at === 'ready')
    const listeners = async (): Promise<number> =>
      Number(((await fixture.server.admin.pubsub('NUMSUB', INBOX_PREFIX + id)) as [string, number])[1])
    if (inspection === 'on') await waitUntil(async () => (await listeners()) === 1, { message: 'it has an inbox' })
    return child
  }

  async function hold(child: Child, command: Partial<HolderCommand> = {}): Promise<string> {
    child.send({ hold: 'lock', stopMs: 0, ...command } satisfies HolderCommand)
    return (await child.nextMessage<HolderReport>(({ at }) => at === 'held')).holder as string
  }

  const next = (child: Child, at: HolderReport['at']): Promise<HolderReport> =>
    child.nextMessage<HolderReport>((message) => message.at === at)

  /** As an operator does it: a process that the machine did not schedule for 2 s is interrupted again. */
  async function interrupt(forcing: () => Promise<ForceUnlockResult>): Promise<void> {
    for (let tries = 0; tries < 5; tries++) {
      const { outcome } = await forcing()
      if (outcome === 'silent') continue
      return assert.equal(outcome, tries > 0 && outcome === 'not-held' ? 'not-held' : 'released')
    }
    assert.fail('it did not react')
  }

  const force = (lock: Lock, holder: string, options: Partial<ForceUnlockOptions> = {}): Promise<ForceUnlockResult> =>
    lock.forceUnlock({ holder, ...ORDER, ...options })

  const marks = async (): Promise<number> => (await fixture.server.admin.keys(forcedKey('a', '*'))).length
  const effects = async (client: Client): Promise<number> => await client.getSemaphore('effects').availablePermits()

  it('forceUnlock({ holder }) interrupts a process, whose last effect precedes the next grant', async (t) => {
    const [child, client, waiter] = [await holderProcess(), await operator(), await fixture.connect()]
    const lock = client.getLock('a')
    const toAbort: number[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      const holder = await hold(child, { stopMs: round % 4 === 0 ? 50 : 0 })
      const waiting = waiter.getLock('a').lock()
      const startedAt = now()
      const forcing = interrupt(() => force(lock, holder, { graceMs: 10_000 }))
      const granted = await waiting
      assert.equal(await effects(waiter), round, 'the last effect came before the next grant')
      await forcing
      const aborted = await next(child, 'aborted')
      assert.deepEqual([aborted.reason, aborted.forced], ['forced', ORDER])
      const ended = await next(child, 'ended')
      assert.deepEqual([ended.reason, ended.forced], ['forced', ORDER])
      toAbort.push((aborted.time as number) - startedAt)
      await granted.unlock()
    }
    assert.equal(await marks(), 0)
    const [p50, most] = [toAbort.sort((a, b) => a - b)[ROUNDS >> 1] as number, toAbort.at(-1) as number]
    t.diagnostic(`from the call to the abort: p50 ${p50.toFixed(1)} ms, at most ${most.toFixed(1)} ms`)
  })

  it('forceUnlock({ holder }) lets the next waiter in after the grace if the function goes on', async () => {
    const [child, client, waiter] = [await holderProcess(), await operator(), await fixture.connect()]
    const holder = await hold(child, { stopMs: 60_000 })
    const waiting = waiter.getLock('a').lock()
    const forcing = interrupt(() => force(client.getLock('a'), holder, { graceMs: 300 }))
    await next(child, 'aborted')
    const granted = await waiting
    await forcing
    assert.equal(await effects(waiter), 0)
    await granted.unlock()
  })

  for (const name of ['fair lock', 'read lock', 'write lock', 'fenced lock', 'spin lock', 'string lock']) {
    it(`forceUnlock({ holder }) interrupts a process that holds a ${name}`, async () => {
      const [child, client] = [await holderProcess(), await operator()]
      const holder = await hold(child, { hold: name })
      await interrupt(() => client.fleet.forceUnlock('a', { holder, ...ORDER, graceMs: 2_000 }))
      assert.equal((await next(child, 'ended')).reason, 'forced')
      const [lock] = kindNamed(name).parts(client, 'a') as [Lock]
      assert.deepEqual(await lock.getHolders(), [])
      const [{ time, ...entry } = assert.fail('it is recorded')] = await client.fleet.audit()
      assert(Math.abs(Date.parse(time) - Date.now()) < 60_000)
      assert.deepEqual(entry, { lock: 'a', holder, ...ORDER, outcome: 'released' })
    })
  }

  for (const { name } of drivers.slice(1) as readonly Driver[]) {
    it(`forceUnlock({ holder }) interrupts a process that uses ${name}`, async () => {
      const [child, client] = [await holderProcess(name), await operator()]
      const holder = await hold(child)
      await interrupt(() => force(client.getLock('a'), holder))
      assert.equal((await next(child, 'ended')).reason, 'forced')
    })
  }

  it('forceUnlock({ holder }) leaves a stopped process its lock, and it carries on when it wakes up', async () => {
    const [child, client] = [await holderProcess(), await operator()]
    const holder = await hold(child)
    child.freeze()
    const lock = client.getLock('a')
    const result = await force(lock, holder, { graceMs: 0 })
    assert.deepEqual(result, { outcome: 'silent', holder: { holder, holdCount: 1 } })
    assert.equal(await marks(), 0)
    child.thaw()
    child.send({ end: true })
    const ended = await next(child, 'ended')
    assert.equal(ended.reason, undefined, 'it was never interrupted')
    assert.deepEqual(await lock.getHolders(), [])
  })

  it('forceUnlock({ holder }) with anyway frees the lock of a stopped process, which learns it on waking', async () => {
    const [child, client, waiter] = [await holderProcess(), await operator(), await fixture.connect()]
    const holder = await hold(child)
    child.freeze()
    const waiting = waiter.getLock('a').lock()
    assert.deepEqual(await force(client.getLock('a'), holder, { graceMs: 0, anyway: true }), { outcome: 'freed' })
    const granted = await waiting
    child.thaw()
    const aborted = await next(child, 'aborted')
    assert.deepEqual([aborted.reason, aborted.forced], ['forced', ORDER])
    granted.assertHeld()
    assert.equal(await granted.isHeld(), true)
    await granted.unlock()
  })

  it('forceUnlock({ holder }) with anyway lets a woken process work beside the next until it learns', async () => {
    const [child, client, waiter] = [await holderProcess(), await operator(), await fixture.connect()]
    const holder = await hold(child, { isBusy: true })
    child.freeze()
    const waiting = waiter.getLock('a').lock()
    await force(client.getLock('a'), holder, { graceMs: 0, anyway: true })
    const granted = await waiting
    const before = await effects(waiter)
    child.thaw()
    await next(child, 'ended')
    granted.assertHeld()
    assert.ok((await effects(waiter)) > before, 'it had an effect although it had lost the lock')
    await granted.unlock()
  })

  it('a quarantine lets the next holder in only when a stopped process that wakes up has learned that', async () => {
    const quarantineMs = 3_000
    for (let tries = 0; ; tries++) {
      const [child, client, waiter] = [await holderProcess(), await operator(), await fixture.connect()]
      const lock = client.getLock('a')
      const holder = await hold(child, { isBusy: true })
      child.freeze()
      const waiting = waiter.getLock('a').lock()
      const grantedAt = waiting.then(now)
      const startedAt = now()
      const forcing = force(lock, holder, { graceMs: 0, anyway: true, quarantineMs })
      await waitUntil(async () => (await lock.getHolders())[0]?.holder !== holder, { timeoutMs: 30_000 })
      child.thaw()
      const ended = await next(child, 'ended')
      assert.deepEqual(ended.forced, ORDER)
      assert.deepEqual(await forcing, { outcome: 'freed' })
      assert.ok((await grantedAt) - startedAt >= 2_500 + quarantineMs)
      await (await waiting).unlock()
      const [entry] = await client.fleet.audit()
      assert.deepEqual([entry?.outcome, entry?.quarantineMs], ['freed', quarantineMs])
      if ((ended.time as number) < (await grantedAt)) return
      assert.ok(tries < 5, 'it worked beside the next holder') // unless the machine stood still for all of the quarantine
    }
  })

  it('a quarantine that its operator does not survive leaves the lock to a lease', async () => {
    const [child, client] = [await holderProcess(), await operator()]
    const holder = await hold(child)
    await child.stop()
    const url = new URL(fixture.server.url)
    Object.assign(url, AS_ADMIN)
    const args = ['unlock', 'a', '--holder', holder, '--yes', '--grace', '0', '--anyway', '--quarantine', '3s']
    const command = spawnHoldfast(url.href, args)
    fixture.onEnd(() => command.stop())
    const lock = client.getLock('a')
    await waitUntil(async () => (await lock.getHolders())[0]?.holder !== holder, { timeoutMs: 60_000 })
    await waitUntil(async () => (await client.fleet.audit()).length > 0) // it is in the quarantine
    await command.stop()
    assert.ok((await fixture.server.admin.pttl('a')) !== -1, 'its key expires')
    const free = await waitUntil(async () => (await lock.tryLock()) ?? undefined, { timeoutMs: 30_000 })
    await free.unlock()
    const [entry] = await client.fleet.audit()
    assert.deepEqual([entry?.lock, entry?.outcome, entry?.quarantineMs], ['a', 'freed', 3_000])
  })

  it('forceUnlock({ holder }) with anyway frees the lock of a process that was killed', async () => {
    const [child, client] = [await holderProcess(), await operator()]
    const holder = await hold(child)
    await child.stop()
    const lock = client.getLock('a')
    assert.equal((await force(lock, holder, { graceMs: 0 })).outcome, 'unreachable')
    assert.deepEqual(await force(lock, holder, { graceMs: 0, anyway: true }), { outcome: 'freed' })
    assert.deepEqual(await lock.getHolders(), [])
  })

  it('forceUnlock({ holder }) does not reach a client with inspection: false, which keeps its lock', async () => {
    const [child, client] = [await holderProcess('a URL', 'off'), await operator()]
    const holder = await hold(child)
    assert.equal((await force(client.getLock('a'), holder, { graceMs: 0 })).outcome, 'silent')
    child.send({ end: true })
    assert.equal((await next(child, 'ended')).reason, undefined)
  })

  it('forceUnlock({ holder }) changes nothing if the lock has another holder by now', async () => {
    const [child, client] = [await holderProcess(), await operator()]
    const holder = await hold(child)
    const lock = client.getLock('a')
    const earlier = `${holder.split(':')[0]}:9999`
    assert.deepEqual(await force(lock, earlier, { anyway: true }), {
      outcome: 'not-held',
      holder: { holder, holdCount: 1 },
    })
    assert.equal(await marks(), 0)
    child.send({ end: true })
    assert.equal((await next(child, 'ended')).reason, undefined)
  })

  it('forceUnlock({ holder }) of client.fleet rejects what has no holder with a field of its own', async () => {
    const client = await operator()
    const hold = await client.getFasterMultiLock('a', ['1']).lock()
    const forcing = client.fleet.forceUnlock('a', { holder: hold.holder })
    await assert.rejects(forcing, { code: 'LOCK_CONFIG', path: 'forceUnlock' })
    await hold.unlock()
    assert.deepEqual(await client.fleet.forceUnlock('b', { holder: hold.holder }), { outcome: 'not-held' })
  })

  it('a forced release is nothing that messages alone can do', async () => {
    const child = await holderProcess()
    const holder = await hold(child)
    const message = JSON.stringify({ v: 1, forced: 'a', holder, by: 'somebody', graceMs: 0 })
    for (let n = 0; n < 100; n++) await fixture.server.admin.publish(`${INBOX_PREFIX}${holder.split(':')[0]}`, message)
    child.send({ end: true })
    assert.equal((await next(child, 'ended')).reason, undefined)
  })
})

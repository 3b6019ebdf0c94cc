/** What a client lets others know of itself: its inbox, its record, and when either costs anything. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import { MAX_REPLY_BYTES, readStateReply, type StateReply, writeStateRequest } from '../../src/fleet/protocol.js'
import { RECORD_TTL_MS, readRecord } from '../../src/fleet/record.js'
import { type ClientOptions, getMultiLock } from '../../src/index.js'
import { RecentLosses } from '../../src/locks/reporting/recent-losses.js'
import { applicationOf } from '../../src/platform.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const REPLY = `holdfast_reply:${'0'.repeat(32)}`
const MINUTE = 60_000

let fixture: ClientFixture
let client: Client
/** What arrives on the channel for replies. */
let replies: string[]

function open(options: ClientOptions = { inspection: { name: 'orders', host: 'host-1' } }): void {
  fixture = new ClientFixture(options)
  client = fixture.client
  replies = []
  fixture.redis.connect((channel, message) => channel === REPLY && replies.push(message) > 0)
}

beforeEach(() => open())
afterEach(() => fixture.close())

const inboxOf = ({ id }: Client): string => `holdfast_inbox:${id}`
const recordOf = ({ id }: Client): string | null =>
  fixture.redis.execute(['GET', `holdfast_client:${id}`]) as string | null
const writes = (): number => fixture.port.count('SET')

function recorded(): NonNullable<ReturnType<typeof readRecord>> {
  const pttl = fixture.redis.execute(['PTTL', `holdfast_client:${client.id}`]) as number
  const record = readRecord(recordOf(client) ?? '', pttl)
  assert(record, 'there is a record')
  return record
}

/** Publishes a request to the client's inbox. */
async function send(text: string): Promise<string | undefined> {
  replies.splice(0)
  fixture.redis.publish(inboxOf(client), text)
  await turn()
  return replies.at(-1)
}

async function ask(locks?: readonly string[], limit = 200): Promise<StateReply> {
  const reply = readStateReply((await send(writeStateRequest({ reply: REPLY, locks, limit }))) ?? '')
  assert(reply, 'it replied')
  return reply
}

/** Somebody else holds a lock for which the client waited for a moment: from now on it can be asked. */
async function present(): Promise<void> {
  const foreign = await fixture.other.getLock('first wait').lock()
  const waiting = client.getLock('first wait').lock()
  await turn()
  await foreign.unlock()
  await (await waiting).unlock()
}

describe('a client that neither waits nor holds anything for 1 s', () => {
  it('an idle client sends nothing for those who might ask, and subscribes to nothing', async () => {
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(900)
    await hold.unlock()
    assert.deepEqual(
      fixture.port.sent.map(({ name }) => name),
      ['lock/acquire', 'lock/release-queued'],
    )
  })
})

describe('the inbox and the record of a client', () => {
  it("the inbox and the record come with a client's first wait, and stay", async () => {
    await present()
    await fixture.clock.advance(5_000)
    assert.deepEqual(fixture.port.channels, [inboxOf(client)])
    const { client: info, holds, waits, ageMs } = recorded()
    assert.deepEqual(info, { ...info, id: client.id, name: 'orders', host: 'host-1', pid: process.pid })
    assert.deepEqual([holds, waits], [[], []])
    assert.equal(ageMs, 5_000)
    assert.equal(writes(), 1)
  })

  it('the inbox and the record come once something has been held for 1 s, with it in the record', async () => {
    const hold = await fixture.lock.lock({ label: 'refund' })
    const { holder } = hold
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.port.channels, [inboxOf(client)])
    assert.deepEqual(recorded().holds, [{ lock: 'a', holder, count: 1, heldMs: 1_000, label: 'refund' }])
    await fixture.clock.advance(60_000)
    assert.equal(writes(), 1, 'the list is the same')
    const second = await client.getLock('b').lock()
    await fixture.clock.advance(10_000)
    assert.equal(writes(), 2)
    assert.deepEqual(
      recorded().holds.map(({ lock }) => lock),
      ['a', 'b'],
    )
    await hold.unlock()
    await second.unlock()
  })

  for (const lockWatchdogTimeoutMs of [600, 120_000, 3_600_000]) {
    it(`the inbox and the record come after 1 s with a lease of ${lockWatchdogTimeoutMs} ms`, async () => {
      await fixture.close()
      open({ lockWatchdogTimeoutMs, inspection: true })
      const hold = await fixture.lock.lock()
      await fixture.clock.advance(1_000)
      assert.equal(recorded().holds.length, 1)
      await hold.unlock()
      await fixture.clock.advance(30_000)
      const again = await client.getLock('b').lock()
      await fixture.clock.advance(11_000)
      assert.deepEqual(
        recorded().holds.map(({ lock }) => lock),
        ['b'],
        'after a pause too',
      )
      await again.unlock()
    })
  }

  it('the record of a client that can be asked costs a later hold of less than 10 s nothing', async () => {
    await present()
    const [before, writesBefore] = [fixture.port.sent.length, writes()]
    await fixture.clock.advance(30_000)
    const later = await fixture.lock.lock({ label: 'later' })
    await fixture.clock.advance(9_000)
    await later.unlock()
    assert.deepEqual(
      fixture.port.sent.slice(before).map(({ name }) => name),
      ['lock/acquire', 'lock/release-queued'],
    )
    assert.equal(writes(), writesBefore)
  })

  it('the inbox and the record come at once if the client describes itself', async () => {
    const hold = await fixture.lock.lock({ label: 'report' })
    client.fleet.describe()
    await turn()
    const labels = () => recorded().holds.map(({ label }) => label)
    assert.deepEqual(labels(), ['report'])
    for (const ms of [1_000, 5_000, 30_000]) {
      await fixture.clock.advance(ms)
      assert.deepEqual(labels(), ['report'], 'it stays until it ends')
    }
    await hold.unlock()
  })

  it('the inbox and the record are renewed by a client that only waits, every 20 minutes', async () => {
    await present()
    await fixture.clock.advance(20 * MINUTE - 1_000)
    assert.equal(writes(), 1)
    await fixture.clock.advance(1_000)
    assert.equal(writes(), 2)
    await fixture.clock.advance(100 * MINUTE)
    assert.equal(writes(), 7)
    assert.ok(recorded().ageMs < 20 * MINUTE)
  })

  it('the inbox and the record are renewed after a reconnect', async () => {
    await present()
    fixture.redis.flush()
    fixture.port.reconnect()
    await turn()
    assert.equal(recorded().client.name, 'orders')
  })

  it('the inbox and the record are gone once the client is closed', async () => {
    await present()
    await fixture.clock.until(client.close())
    assert.equal(recordOf(client), null)
    assert.deepEqual(fixture.port.channels, [])
  })

  it('the inbox and the record do not exist with inspection: false', async () => {
    await fixture.close()
    open({ inspection: false })
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(30_000)
    await hold.unlock()
    await present()
    await fixture.clock.advance(1_000)
    assert.deepEqual([writes(), fixture.port.channels, recordOf(client)], [0, [], null])
  })

  it('the inbox and the record tell no host with host: false', async () => {
    await fixture.close()
    open({ inspection: { host: false } })
    await present()
    assert.equal(recorded().client.host, '')
  })

  it("the inbox and the record tell the machine's and the package's name by default", async () => {
    await fixture.close()
    open({ inspection: true })
    await present()
    const { host, name } = recorded().client
    assert.deepEqual([host, name], [hostname(), applicationOf(process.env, process.argv[1]).name])
  })
})

describe('a client that is asked', () => {
  beforeEach(present)

  it('an asked client says what it holds, since when and what for, the oldest first', async () => {
    const first = await client.getLock('a').lock({ label: 'refund' })
    await fixture.clock.advance(1_000)
    const second = await client.getReadWriteLock('b').writeLock().lock()
    await fixture.clock.advance(500)
    const { client: id, holds, waits, more } = await ask()
    assert.equal(id, client.id)
    assert.deepEqual(holds, [
      { lock: 'a', holder: first.holder, count: 1, heldMs: 1_500, label: 'refund' },
      { lock: 'b', holder: second.holder, count: 1, heldMs: 500 },
    ])
    assert.deepEqual([waits, more], [[], 0])
    await first.unlock()
    await second.unlock()
  })

  it('an asked client names the caller that is inside, which Redis does not know after a hand-off', async () => {
    const first = await fixture.lock.lock({ label: 'first' })
    const waiting = fixture.lock.lock({ label: 'second' })
    await turn()
    await first.unlock()
    const second = await waiting
    await fixture.clock.advance(100)
    const { holds } = await ask()
    assert.deepEqual(holds, [{ lock: 'a', holder: first.holder, count: 1, heldMs: 100, label: 'second' }])
    await second.unlock()
  })

  it('an asked client says what its calls wait for, until when, and what their call chains hold', async () => {
    const foreign = await fixture.other.getLock('b').lock()
    let holder: string | undefined
    const chain = fixture.lock.withLock(async (hold) => {
      holder = hold.holder
      await client.getLock('b').withLock({ waitTimeMs: 30_000, label: 'inner' }, () => {})
    })
    await fixture.clock.advance(2_000)
    const [wait, ...others] = (await ask(['b'])).waits
    assert.equal(others.length, 0)
    assert.deepEqual(wait, {
      wait: wait?.wait,
      lock: 'b',
      waitedMs: 2_000,
      endsInMs: 28_000,
      label: 'inner',
      isListening: true,
      chain: [{ lock: 'a', holder }],
    })
    assert.equal((await ask(['b'])).waits[0]?.wait, wait?.wait, 'it is the same wait')
    await foreign.unlock()
    await chain
    assert.deepEqual((await ask()).waits, [])
  })

  it('an asked client says who waits for permits and latches', async () => {
    const semaphore = client.getSemaphore('s').acquire({ label: 'printer' })
    await client.getCountDownLatch('l').trySetCount(1)
    const latch = client.getCountDownLatch('l').await({ waitTimeMs: 5_000 })
    await fixture.clock.advance(100)
    const { waits } = await ask()
    assert.deepEqual(
      waits.map(({ lock, label, endsInMs }) => [lock, label, endsInMs]),
      [
        ['s', 'printer', undefined],
        ['l', undefined, 4_900],
      ],
    )
    await client.getCountDownLatch('l').countDown()
    await client.getSemaphore('s').addPermits(1)
    await fixture.clock.until(Promise.all([semaphore, latch]))
  })

  it('an asked client names the ids of permits with leases', async () => {
    const semaphore = client.getPermitExpirableSemaphore('p')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2 })
    const { holds } = await ask(['p'])
    assert.deepEqual(
      holds.map(({ holder }) => holder),
      permit.permitIds,
    )
    await permit.unlock()
  })

  it('an asked client speaks of certain locks only, and of so many, if asked so', async () => {
    const holds = await Promise.all(['a', 'b', 'c'].map(async (name) => await client.getLock(name).lock()))
    const names = (reply: StateReply): string[] => reply.holds.map(({ lock }) => lock)
    assert.deepEqual(names(await ask(['b', 'b', 'x'])), ['b'])
    const some = await ask(undefined, 2)
    assert.deepEqual([names(some).length, some.more], [2, 1])
    for (const hold of holds) await hold.unlock()
  })

  it('an asked client says how many holds it has lost in the last hour, one of a multi-lock once', async () => {
    await present()
    const names = ['x', 'y']
    const lose = async (): Promise<void> => {
      const joint = await getMultiLock(...names.map((name) => client.getLock(name))).lock()
      for (const name of names) await client.getLock(name).forceUnlock()
      await assert.rejects(joint.unlock(), { code: 'LOCK_LEASE_LOST' })
    }
    assert.equal((await ask()).lost, 0)
    await lose()
    await fixture.clock.advance(40 * MINUTE)
    await lose()
    assert.equal((await ask([])).lost, 2)
    await fixture.clock.advance(30 * MINUTE)
    assert.equal((await ask()).lost, 1)
    await fixture.clock.advance(30 * MINUTE)
    assert.equal((await ask()).lost, 0)
  })

  it('an asked client counts 1,000 losses at most, and is believed no more', () => {
    const losses = new RecentLosses()
    for (let n = 0; n < 1_500; n++) losses.add(n)
    assert.equal(losses.count(1_500), 1_000)
    const lostOf = (lost: unknown) => readStateReply(JSON.stringify({ v: 1, client: 'a', lost }))?.lost
    assert.deepEqual([1e300, 2.5, -1, '7', undefined].map(lostOf), [1_000, 2, undefined, undefined, undefined])
  })

  it('an asked client leaves out what does not fit into a message', async () => {
    const long = 'x'.repeat(2_000)
    const names = Array.from({ length: 50 }, (_, n) => long + n)
    const holds = await Promise.all(names.map(async (name) => await client.getLock(name).lock({ label: long })))
    const { length } = (await send(writeStateRequest({ reply: REPLY, limit: 200 }))) ?? ''
    assert.ok(length > MAX_REPLY_BYTES / 2 && length <= MAX_REPLY_BYTES)
    const { holds: told, more } = await ask()
    assert.equal(told.length + more, 50)
    assert.equal(told[0]?.label?.length, 1_024)
    for (const hold of holds) await hold.unlock()
  })

  it('an asked client says so if it does not know the question', async () => {
    const text = await send(JSON.stringify({ v: 2, ask: 'weather', reply: REPLY }))
    assert.deepEqual(JSON.parse(text ?? ''), { v: 1, client: client.id, unsupported: 'weather' })
  })

  it('an asked client replies to nothing else, and publishes to no other channel', async () => {
    const before = fixture.port.count()
    for (const reply of ['redisson_lock__channel:{a}', `holdfast_reply:${'x'.repeat(32)}`, 1, undefined]) {
      await send(JSON.stringify({ v: 1, ask: 'state', reply }))
    }
    for (const text of ['{', '{}', '{"v":1}', `{${' '.repeat(70_000)}}`]) await send(text)
    assert.equal(fixture.port.count(), before)
  })

  it('an asked client learns at once that an operator interrupts one of its holders', async () => {
    const hold = await fixture.lock.lock()
    const forced = fixture.other.getLock('a').forceUnlock({ holder: hold.holder, reason: 'INC-4711' })
    await fixture.clock.advance(50)
    assert.equal(hold.signal.aborted, true)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal((await fixture.clock.until(forced)).outcome, 'released')
  })

  it('an asked client replies 20 times per second at most', async () => {
    const request = writeStateRequest({ reply: REPLY, limit: 10 })
    for (let n = 0; n < 100; n++) fixture.redis.publish(inboxOf(client), request)
    await turn()
    assert.equal(replies.length, 20)
    await fixture.clock.advance(1_000)
    assert.ok(await ask())
  })

  it('an asked client replies for 20 ms a second, or four times, at most', async () => {
    fixture.port.fault = ({ name }) => {
      if (name === 'PUBLISH') fixture.clock.block(30)
      return undefined
    }
    const request = writeStateRequest({ reply: REPLY, limit: 10 })
    for (let n = 0; n < 10; n++) fixture.redis.publish(inboxOf(client), request)
    await turn()
    assert.equal(replies.length, 4)
    fixture.port.fault = () => undefined
    await fixture.clock.advance(1_000)
    assert.ok(await ask())
  })

  it('an asked client says where its holds were taken, with stacks: true', async () => {
    await fixture.close()
    open({ inspection: { stacks: true } })
    await present()
    const hold = await fixture.lock.lock()
    const [told] = (await ask(['a'])).holds
    assert.match(told?.stack ?? '', /presence\.test/)
    await hold.unlock()
  })
})

describe('what an ACL denies', () => {
  for (const command of ['SET', 'SUBSCRIBE', 'PUBLISH']) {
    it(`what an ACL denies is reported once if it is ${command}, and harms no lock`, async () => {
      fixture.port.fault = ({ name }) => (name === command ? { errorReply: 'NOPERM' } : undefined)
      const hold = await fixture.lock.lock()
      await fixture.clock.advance(10_000)
      await send(writeStateRequest({ reply: REPLY, limit: 1 }))
      await fixture.clock.advance(60_000)
      assert.deepEqual(
        fixture.warnings.map(({ code }) => code),
        ['INSPECTION_REFUSED'],
      )
      assert.deepEqual(fixture.port.channels, [])
      assert.equal(fixture.port.count(command), 1)
      fixture.assertSafe(hold)
      await hold.unlock()
    })
  }
})

describe('what Redis refuses for now', () => {
  it('what Redis refuses for now is tried again at the next tick', async () => {
    fixture.port.once('SET', { errorReply: 'OOM command not allowed' })
    const hold = await fixture.lock.lock()
    await fixture.clock.advance(1_000)
    assert.equal(recordOf(client), null)
    await fixture.clock.advance(10_000)
    assert.equal(recorded().holds.length, 1)
    assert.deepEqual(fixture.warnings, [])
    await hold.unlock()
  })
})

describe('readRecord()', () => {
  it('readRecord() understands what another program wrote, and nothing that is not a record', () => {
    const text = JSON.stringify({ v: 1, client: 'java', name: 'billing', pid: 'x' })
    const client = { id: 'java', name: 'billing', host: '', pid: 0, version: '' }
    assert.deepEqual(readRecord(text, RECORD_TTL_MS - 1_000), { client, holds: [], waits: [], ageMs: 1_000 })
    assert.equal(readRecord(text, 24 * RECORD_TTL_MS)?.ageMs, 0)
    for (const wrong of ['', '1', 'null', '{}', '{"v":2,"client":"a"}']) assert.equal(readRecord(wrong, 1), undefined)
  })
})

describe('the name of the application', () => {
  it("the application's name is that of the package of npm or the program, or node", () => {
    const npm = { npm_package_name: 'orders', npm_package_version: '2.3.1' }
    assert.deepEqual(applicationOf(npm, undefined), { name: 'orders', version: '2.3.1' })
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
    try {
      const program = join(folder, 'dist', 'main.js')
      writeFileSync(join(folder, 'package.json'), '{"name":"billing","version":"1.0.0"}')
      assert.deepEqual(applicationOf({}, program), { name: 'billing', version: '1.0.0' })
      writeFileSync(join(folder, 'package.json'), '{')
      assert.deepEqual(applicationOf({}, program), { name: 'node', version: '' })
    } finally {
      rmSync(folder, { recursive: true })
    }
    assert.deepEqual(applicationOf({}, undefined), { name: 'node', version: '' })
  })
})

/** Which calls go together in one command, how many, and how many are in flight at once. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Admission } from '../../src/delivery/admission.js'
import { Batch, inBatches } from '../../src/delivery/batch.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { fleetRead, lockAcquire, lockRelease, lockRenew } from '../../src/lua/generated.js'
import type { Argument, ScriptCall } from '../../src/lua/script.js'
import { forCluster } from '../../src/lua/variants.js'
import { BusyClock, FakeClock, turn } from '../support/fakes/fake-clock.js'

const TIMEOUT_MS = 3_000
const LEASE_MS = 1_000
const { script: ACQUIRE } = lockAcquire('', 0, '')
const { script: RELEASE } = lockRelease('', '', '', '')
/** Characters of keys and arguments in one command. */
const MAX_LENGTH = 32_768
const take = (name: string, holder = 'me:1') => lockAcquire(name, 30_000, holder)
const release = (name: string) => lockRelease(name, 'me:1', 'channel', '0')

describe('calls of one turn of the event loop', () => {
  let sent: (readonly string[])[]

  beforeEach(() => {
    sent = []
  })

  function connect(properties: Partial<RedisPort> = {}): Scripts {
    const port: RedisPort = {
      isOneServer: true,
      send: async (command) => {
        sent.push(command)
        const count = Number(command[2])
        return count === 1 ? 1 : [[], Array.from({ length: count }, () => 1)]
      },
      isErrorReply: () => false,
      subscribe: async () => {},
      unsubscribe: async () => {},
      listen: () => {},
      close: async () => {},
      ...properties,
    }
    const scripts = new Scripts(port, new FakeClock(), TIMEOUT_MS)
    scripts.learnTime('a', 0)
    return scripts
  }

  /** Sends them together. @returns the keys of each command */
  async function keysOf(calls: readonly ScriptCall[], scripts = connect()): Promise<string[]> {
    await Promise.all(calls.map((call) => scripts.run(call)))
    return sent.map(([, , count, ...words]) => words.slice(0, Number(count)).join())
  }

  it('calls of one turn go by 32 in one command', async () => {
    const names = Array.from({ length: 70 }, (_, n) => `lock:${n}`)
    const expected = [names.slice(0, 32), names.slice(32, 64), names.slice(64)].map((some) => some.join())
    assert.deepEqual(await keysOf(names.map((name) => take(name))), expected)
  })

  for (const [what, of] of [
    ['names', (length: number) => take('n'.repeat(length - 4), 'me:1')],
    ['arguments', (length: number) => take('name', 'a'.repeat(length - 4))],
  ] as const) {
    it(`calls of one turn with long ${what} fill a command sooner`, async () => {
      const half = of(MAX_LENGTH / 2)
      assert.equal((await keysOf([half, half])).length, 1)
      sent = []
      assert.equal((await keysOf([half, of(MAX_LENGTH / 2 + 1)])).length, 2)
      sent = []
      assert.equal((await keysOf([half, half, take('a')])).length, 2)
    })
  }

  it('calls of one turn that read much go by 4', async () => {
    const names = Array.from({ length: 6 }, (_, n) => `lock:${n}`)
    const calls = names.map((name) => fleetRead(name, 'q', 't', 'k', 'l', 'g', 'o', 'p'))
    assert.deepEqual(
      (await keysOf(calls)).map((keys) => keys.split(',').length / 7),
      [4, 2],
    )
  })

  it('calls of one turn that are unfinished go on alone, until they are done', async () => {
    const replies: unknown[] = [[[], [1, 'unfinished', 3]], 'unfinished', 'unfinished', 2]
    const scripts = connect({
      send: async (command) => {
        sent.push(command)
        return replies.shift()
      },
    })
    const outcomes = ['a', 'b', 'c'].map((name) => scripts.run(release(name)))
    assert.deepEqual(await Promise.all(outcomes), [1, 2, 3])
    assert.deepEqual(
      sent.map(([, , count, ...words]) => words.slice(0, Number(count)).join()),
      ['a,b,c', 'b', 'b', 'b'],
    )
    assert.equal(scripts.isIdle, true)
  })

  it('calls of one turn send the arguments that they share once', async () => {
    await keysOf([take('a', 'me:1'), take('b', 'me:2')])
    assert.deepEqual(sent[0]?.slice(3), ['a', 'b', '1', '10', '30000', 'me:1', 'me:2', '0', '3000'])
  })

  it('calls of one turn stay in their order if they have any key in common', async () => {
    assert.deepEqual(await keysOf([take('c'), release('x'), release('a'), take('a')]), ['c', 'x,a', 'a'])
    sent = []
    const renew = lockRenew(['x', 'a'], ['me:1', 1, 'me:1', 1])
    assert.deepEqual(await keysOf([take('c'), renew, take('a')]), ['c', 'x,a', 'a'])
  })

  it('calls of one turn go alone in a cluster, at once, and publish there in both ways', async () => {
    const scripts = connect({ isCluster: true })
    let sentAt: number | undefined
    void scripts.run(take('a'), TIMEOUT_MS, (at) => (sentAt = at))
    assert.equal(sentAt, 1_000)
    assert.equal(sent.length, 1)
    assert.deepEqual(await keysOf([release('b'), release('c')], scripts), ['a', 'b', 'c'])
    assert.equal(sent[1]?.[1], forCluster(RELEASE).sha1)
    assert.notEqual(scripts.groupOf('b'), scripts.groupOf('c'))
  })

  for (const [title, properties] of [
    ['in a cluster', { isCluster: true }],
    ['of which it is not known whether it is one server', { isOneServer: false }],
  ] as const) {
    it(`calls of one turn on one key go together ${title}, in their order`, async () => {
      const many = Array.from({ length: 40 }, () => release('a'))
      const calls = [take('a'), ...many, release('b'), take('a'), release('a')]
      const isScript = (_: string, index: number) => sent[index]?.[0] === 'EVALSHA' // and no question about servers
      const keys = (await keysOf(calls, connect(properties))).filter(isScript)
      assert.deepEqual(
        keys.map((key) => `${key[0]} x ${key.split(',').length}`),
        ['a x 1', 'a x 32', 'a x 8', 'b x 1', 'a x 1', 'a x 1'],
      )
    })
  }
})

describe('a batch', () => {
  const call = (keys: number, args: number, script = ACQUIRE): ScriptCall => ({
    script,
    keys: Array.from({ length: keys }, (_, n) => `key ${n}`),
    args: Array.from({ length: args }, (_, n): Argument => n),
  })
  const batchOf = (first: ScriptCall) => new Batch({ call: first, resolve: () => {}, reject: () => {} }, TIMEOUT_MS)

  it('a batch takes calls of its script, its time limit and its number of keys and arguments', () => {
    const batch = batchOf(call(1, 2))
    assert.equal(batch.fits(call(1, 2), TIMEOUT_MS), true)
    assert.equal(batch.fits(call(1, 2, RELEASE), TIMEOUT_MS), false, 'another script')
    assert.equal(batch.fits(call(2, 2), TIMEOUT_MS), false, 'more keys')
    assert.equal(batch.fits(call(1, 3), TIMEOUT_MS), false, 'more arguments')
    assert.equal(batch.fits(call(1, 2), TIMEOUT_MS + 1), false, 'another time limit')
  })

  it('a batch takes no calls of many keys and arguments, which are batches themselves', () => {
    assert.equal(batchOf(call(4, 8)).fits(call(4, 8), TIMEOUT_MS), true)
    assert.equal(batchOf(call(4, 9)).fits(call(4, 9), TIMEOUT_MS), false)
    assert.equal(batchOf(call(9, 4)).fits(call(9, 4), TIMEOUT_MS), false)
  })
})

describe('calls that are split into batches', () => {
  const split = (names: readonly string[], maxCalls: number): string[][] =>
    inBatches(
      names.map((name) => ({ call: lockRenew([name], []) })),
      maxCalls,
    ).map((batch) => batch.map(({ call }) => call.keys.join()))

  it('calls split into batches stay in their order, with as many in each as are allowed', () => {
    assert.deepEqual(split([], 2), [])
    assert.deepEqual(split(['a', 'b', 'c', 'd', 'e'], 2), [['a', 'b'], ['c', 'd'], ['e']])
  })

  it('calls split into batches are fewer in each if their keys are long', () => {
    const [half, more] = ['h'.repeat(MAX_LENGTH / 2), 'm'.repeat(MAX_LENGTH / 2 + 1)]
    assert.deepEqual(split([half, half, half], 9), [[half, half], [half]])
    assert.deepEqual(split([more, half, half], 9), [[more], [half, half]])
    assert.deepEqual(split([more + half, 'a', 'b'], 9), [[more + half], ['a', 'b']])
  })
})

describe('calls that request a lease', () => {
  let clock: FakeClock
  let admission: Admission
  let admitted: string[]

  beforeEach(() => {
    clock = new FakeClock()
    admission = new Admission(clock)
    admitted = []
  })

  function send(count: number): void {
    for (let n = 0; n < count; n++) admission.sent()
  }

  /** Each is sent as soon as it may be. */
  function ask(names: readonly string[], leaseMs = LEASE_MS): void {
    for (const name of names) {
      void admission.room(leaseMs).then(() => {
        admitted.push(name)
        admission.sent()
      })
    }
  }

  /** After everything that can run without time passing. */
  async function soFar(): Promise<string> {
    await turn()
    return admitted.join()
  }

  for (const [leaseMs, most] of [
    [LEASE_MS, LEASE_MS / 4],
    [10, 32],
  ] as const) {
    it(`calls that request a lease may be ${most} in flight if their leases last ${leaseMs} ms`, () => {
      send(most - 1)
      assert.equal(admission.hasRoom(leaseMs), true)
      send(1)
      assert.equal(admission.hasRoom(leaseMs), false)
      admission.finished(1)
      assert.equal(admission.hasRoom(leaseMs), true)
    })
  }

  it('calls that request a lease are admitted in order, one per reply, and none overtakes held ones', async () => {
    send(LEASE_MS / 4)
    ask(['a', 'b', 'c'])
    assert.equal(admission.hasRoom(30 * LEASE_MS), false)
    admission.finished(1)
    assert.equal(await soFar(), 'a')
    admission.finished(2)
    assert.equal(await soFar(), 'a,b,c')
    assert.equal(clock.pending, 0)
    assert.equal(admission.hasRoom(LEASE_MS), false)
    admission.finished(1)
    assert.equal(admission.hasRoom(LEASE_MS), true)
    assert.equal(admission.inFlight, LEASE_MS / 4 - 1)
  })

  it('calls that request a lease are held back while any renewals are sent', async () => {
    const resume = [admission.holdBack(), admission.holdBack()]
    assert.equal(admission.hasRoom(LEASE_MS), false)
    ask(['a', 'b'])
    resume[0]?.()
    assert.equal(await soFar(), '')
    resume[1]?.()
    assert.equal(await soFar(), 'a,b')
    assert.equal(admission.hasRoom(LEASE_MS), true)
    assert.equal(clock.pending, 0)
  })

  for (const [leaseMs, stallMs] of [
    [LEASE_MS, LEASE_MS / 8],
    [30_000, 250],
  ] as const) {
    it(`calls with leases of ${leaseMs} ms are sent after ${stallMs} ms without a reply, whoever asks`, async () => {
      send(leaseMs / 4)
      ask(['a'], leaseMs)
      await clock.advance(stallMs - 1)
      ask(['b'], leaseMs)
      assert.equal(await soFar(), '')
      await clock.advance(1)
      assert.equal(await soFar(), 'a,b')
      assert.equal(clock.pending, 0)
    })
  }

  it('calls that request a lease are held back as long as replies arrive, and for a while after', async () => {
    send(LEASE_MS / 4 + 2)
    ask(['a', 'b'])
    await clock.advance(100)
    admission.finished(1)
    await clock.advance(LEASE_MS / 8 - 1)
    assert.equal(await soFar(), '')
    admission.finished(2)
    assert.equal(await soFar(), 'a')
    await clock.advance(LEASE_MS / 8 - 1)
    assert.equal(await soFar(), 'a')
    await clock.advance(1)
    assert.equal(await soFar(), 'a,b')
  })

  it('calls that request a lease go in portions of what may be in flight while there are no replies', async () => {
    send(32)
    ask(
      Array.from({ length: 70 }, (_, n) => `lock:${n}`),
      80,
    )
    for (const count of [32, 64, 70]) {
      await clock.advance(10)
      assert.equal(admitted.length, count)
    }
    assert.equal(clock.pending, 0)
  })

  it('calls that request a lease leave no timer if replies are read after a blocked event loop', async () => {
    const busy = new BusyClock()
    admission = new Admission(busy)
    send(LEASE_MS / 4)
    ask(['a'])
    await busy.advance(LEASE_MS / 8)
    admission.finished(1)
    assert.equal(await soFar(), 'a')
    ask(['b'])
    busy.poll()
    assert.equal(await soFar(), 'a')
    admission.finished(1)
    assert.equal(await soFar(), 'a,b')
    assert.equal(busy.pending, 0)
  })
})

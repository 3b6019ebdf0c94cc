/** The table of kinds, on which Nest, the docs tests and the other tests rely; and how kinds relate to each other. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Client, lockOfKind } from '../../src/client.js'
import { WRITE } from '../../src/locks/kinds/read-write.js'
import { SpinKind, type SpinLockOptions } from '../../src/locks/kinds/spin.js'
import { STRING } from '../../src/locks/kinds/string.js'
import { KIND_IDS, KINDS, NAMED_KIND_IDS, type NamedKindId } from '../../src/locks/kinds/table.js'
import type { Random } from '../../src/util/random.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

it('the getter in each row of the table of kinds returns a lock of that kind', async () => {
  await using client = new Client(new FakePort(new FakeClock()))
  for (const id of NAMED_KIND_IDS) assert.equal(lockOfKind(client, id, 'a').kind.id, id)
  assert.equal(client[KINDS.fasterMulti.getter]('a', ['b']).kind.id, 'fasterMulti')
  assert.equal(KIND_IDS.length, NAMED_KIND_IDS.length + 1)
})

it('a lock of any kind is renewed as long as it is held', async () => {
  const fixture = new ClientFixture({})
  for (const id of NAMED_KIND_IDS) {
    const lock = lockOfKind(fixture.client, id, 'a')
    const hold = await lock.lock()
    await fixture.clock.advance(61_000)
    hold.assertHeld()
    assert((await lock.remainingLeaseMs()) >= 20_000, id)
    await hold.unlock()
  }
  await fixture.close()
})

/** Every pair of kinds for which `relates` is true: the one that is requested, and the one that is held. */
async function pairs(relates: (requested: NamedKindId, held: NamedKindId, client: Client) => boolean) {
  await using client = new Client(new FakePort(new FakeClock()))
  return NAMED_KIND_IDS.flatMap((requested) =>
    NAMED_KIND_IDS.filter((held) => relates(requested, held, client)).map((held) => `${requested} ${held}`),
  ).sort()
}

it('a grant proves that no other owner holds a lock of the same kind, or the other side of a read-write lock', async () => {
  const excluded = await pairs((requested, held, client) =>
    lockOfKind(client, requested, 'a').kind.excludes(lockOfKind(client, held, 'a').kind),
  )
  const exclusive = NAMED_KIND_IDS.filter((id) => !KINDS[id].isShared)
  assert.deepEqual(excluded, [...exclusive.map((id) => `${id} ${id}`), 'read write', 'write read'].sort())
})

it('inside a lock of the same kind a lock is re-entered, inside a write it is read, and else it would wait for itself', async () => {
  const nested = (nesting: string) =>
    pairs(
      (requested, held, client) =>
        lockOfKind(client, requested, 'a').kind.nestingIn(lockOfKind(client, held, 'a').kind) === nesting,
    )
  const reentrant = NAMED_KIND_IDS.filter((id) => KINDS[id].isReentrant !== false)
  assert.deepEqual(await nested('again'), reentrant.map((id) => `${id} ${id}`).sort())
  assert.deepEqual(await nested('join'), ['read write'])
  assert.deepEqual(await nested('apart'), [])
})

it('a write lock with many readers says how many it has not listed, at least none', () => {
  const inspected = (most: number) => WRITE.parseInspection([1_000, '17', most, 'one:1', 1, 'two:2', 1])
  assert.deepEqual([inspected(9).others, inspected(9).next], [7, '17'])
  assert.equal(inspected(1).others, 0)
  const complete = WRITE.parseInspection([1_000, '0', 9, 'one:1', 1])
  assert.deepEqual([complete.others, complete.next], [0, undefined])
})

const always = (fraction: number): Random => ({ uuid: () => '', fraction: () => fraction })

it('a spin lock sleeps longer before each attempt, with growing jitter, up to its longest delay', () => {
  const pauses = (fraction: number, backOff?: SpinLockOptions['backOff']): number[] =>
    Array.from({ length: 9 }, new SpinKind('a', { backOff }).pace(always(fraction)))
  assert.deepEqual(pauses(0), [1, 2, 4, 8, 16, 32, 64, 128, 128])
  assert.deepEqual(pauses(0.5), [1, 2, 5, 11, 24, 50, 103, 128, 128])
  const own = { type: 'exponential', initialDelayMs: 10, maxDelayMs: 200, multiplier: 3 } as const
  assert.deepEqual(pauses(0, own).slice(0, 5), [10, 30, 90, 200, 200])
  assert.deepEqual(new Set(pauses(0.5, { type: 'constant' })), new Set([64]))
  assert.deepEqual(new Set(pauses(0.5, { type: 'constant', delayMs: 5 })), new Set([5]))
})

it('a string lock is polled every 50 to 150 ms, at random', () => {
  const pauses = [0, 0.5, 1].map((fraction) => STRING.pace?.(always(fraction))())
  assert.deepEqual(pauses, [50, 100, 150])
})

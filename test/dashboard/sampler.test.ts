import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { metricsOf } from '../../src/dashboard/metrics.js'
import { idOf } from '../../src/dashboard/rows.js'
import { type Difference, Sampler } from '../../src/dashboard/sampler.js'
import type { Doubt } from '../../src/index.js'
import { FakeFleet, heldLock, holder, waiter } from '../support/dashboard.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

let clock: FakeClock
let fleet: FakeFleet
let sampler: Sampler

beforeEach(() => {
  clock = new FakeClock()
  fleet = new FakeFleet()
  sampler = new Sampler(fleet, clock)
})

async function listening(): Promise<Difference[]> {
  const differences: Difference[] = []
  await sampler.ready()
  sampler.listen((difference) => differences.push(difference))
  return differences
}

describe('the sampler', () => {
  it('the sampler reads nothing before somebody asks', async () => {
    await clock.advance(10_000)
    assert.deepEqual([fleet.reads.all, clock.pending], [0, 0])
  })

  it('the sampler samples once a second for any number of listeners', async () => {
    await Promise.all(Array.from({ length: 20 }, listening))
    assert.equal(fleet.reads.all, 1)
    await clock.advance(10_000)
    assert.equal(fleet.reads.all, 11)
  })

  it('the sampler stops a minute after its last listener, forgets all, and starts when asked', async () => {
    fleet.present = [heldLock('lock:a')]
    await sampler.ready()
    const stop = sampler.listen(() => {})
    await clock.advance(300_000)
    stop()
    await clock.advance(59_000)
    assert.equal(clock.pending, 1)
    await clock.advance(2_000)
    assert.deepEqual([clock.pending, sampler.locks.length, sampler.history().agoMs.length], [0, 0, 0])
    await sampler.ready()
    assert.deepEqual([clock.pending, sampler.locks.length], [1, 1])
  })

  it('the sampler keeps no process alive', async () => {
    await listening()
    assert.deepEqual([clock.pending, clock.keepingAlive], [2, 0])
  })

  it('the sampler never takes two samples at a time, and pauses as long as a slow one takes', async () => {
    let inside = 0
    let most = 0
    fleet.beforeRead = async () => {
      most = Math.max(most, ++inside)
      await new Promise<void>((resolve) => clock.after(3_000, resolve))
      inside--
    }
    await clock.until(sampler.ready())
    sampler.listen(() => {})
    await clock.advance(60_000)
    assert.equal(most, 1)
    assert.ok(fleet.reads.all + fleet.reads.contended <= 12)
  })

  it('the sampler reports only what has changed', async () => {
    fleet.present = [heldLock('lock:a'), heldLock('lock:b')]
    const differences = await listening()
    const ageing = (seconds: number, name: string) =>
      heldLock(name, {
        remainingLeaseMs: 30_000 - seconds * 1_000,
        holders: [holder({ heldMs: 1_000 + seconds * 1_000 })],
      })
    fleet.present = [ageing(1, 'lock:a'), ageing(1, 'lock:b')]
    await clock.advance(1_000)
    assert.deepEqual([differences[0]?.changed, differences[0]?.removed], [[], []])
    fleet.present = [ageing(2, 'lock:b'), heldLock('lock:c')]
    await clock.advance(1_000)
    assert.deepEqual(
      differences[1]?.changed.map(({ name }) => name),
      ['lock:c'],
    )
    assert.deepEqual(differences[1]?.removed, [idOf('lock:a')])
    assert.deepEqual(
      sampler.rows().map(({ name, ageMs }) => [name, ageMs]),
      [
        ['lock:b', 2_000],
        ['lock:c', 0],
      ],
    )
  })

  it('the sampler says of an unlisted holder for how long it has been seen', async () => {
    const { heldMs: _, client: __, ...unknown } = holder({ status: 'unlisted' })
    fleet.present = [heldLock('lock:java', { holders: [unknown], remainingLeaseMs: Number.POSITIVE_INFINITY })]
    await listening()
    await clock.advance(40_000)
    const [row] = sampler.rows()
    const seenMs = (row?.holders[0]?.seenMs ?? 0) + (row?.ageMs ?? 0)
    assert.ok(seenMs >= 39_000 && seenMs <= 41_000, `${seenMs}`)
    assert.equal(sampler.totals.unlisted, 1)
  })

  it("the sampler's oldest hold, and that of the metrics, may be one of Java's", async () => {
    const java = holder({ holder: 'java:1', status: 'unlisted' })
    fleet.present = [heldLock('lock:a', { holders: [{ ...java, heldMs: undefined as unknown as number }] })]
    await listening()
    await clock.advance(40_000)
    const { oldestMs } = sampler.totals
    assert.ok(oldestMs >= 39_000 && oldestMs <= 41_000, `${oldestMs}`)
    const text = metricsOf(sampler.sampled, sampler.totals, [])
    assert.match(text, /^holdfast_fleet_oldest_hold_seconds\{kind="lock"\} (39|40|41)/m)
  })

  it('the sampler passes on what the list of locks does not say, to the page and to the metrics', async () => {
    const silent: Doubt = { about: 'silent-clients', count: 2, clients: [] }
    fleet.doubts = [silent, { about: 'hidden-locks', count: 21, locks: ['a'] }]
    const differences = await listening()
    assert.deepEqual(sampler.totals.doubts.map(({ about }) => about).sort(), ['hidden-locks', 'silent-clients'])
    const text = metricsOf(sampler.sampled, sampler.totals, [])
    assert.match(text, /^holdfast_fleet_doubts\{about="silent-clients"\} 2$/m)
    assert.match(text, /^holdfast_fleet_doubts\{about="hidden-locks"\} 21$/m)
    assert.match(text, /^holdfast_fleet_doubts\{about="left-out"\} 0$/m)
    assert.equal(sampler.deadlocks.doubts.length, 2)
    fleet.doubts = []
    await clock.advance(1_000)
    assert.deepEqual(differences.at(-1)?.totals.doubts, [])
  })

  it('the sampler keeps in mind between two reads of all locks which it could not read', async () => {
    fleet.doubts = [{ about: 'hidden-locks', count: 21, locks: ['a'] }]
    fleet.beforeRead = async () => await new Promise((resolve) => clock.after(400, () => resolve()))
    await Promise.all([listening(), clock.advance(500)])
    fleet.doubts = []
    await clock.advance(1_500)
    assert.ok(fleet.reads.contended > 0 && fleet.reads.all === 1)
    assert.deepEqual(
      sampler.totals.doubts.map(({ count }) => count),
      [21],
    )
  })

  it('the sampler says of one lock whether it can be broken: by this Redis user, and of this kind', async () => {
    const mayBreak = async (kind: string, may: boolean | undefined) => {
      fleet.present = [heldLock('lock:a', { kind })]
      fleet.mayBreak = may
      return (await sampler.detail('lock:a')).mayBreak
    }
    assert.deepEqual([await mayBreak('lock', true), await mayBreak('lock', undefined)], [true, true])
    assert.equal(await mayBreak('lock', false), false)
    assert.equal(await mayBreak('permit expirable semaphore', true), false)
  })

  it('the sampler counts the losses of clients, asks again after 10 s, and says how many were silent', async () => {
    const [client = assert.fail()] = fleet.presentClients
    const { lossesLastHour: _, ...silent } = { ...client, id: 'beef', status: 'silent' as const }
    fleet.presentClients = [{ ...client, lossesLastHour: 2 }, { ...client, id: 'cafe', lossesLastHour: 1 }, silent]
    await listening()
    assert.deepEqual([sampler.totals.losses, sampler.totals.silentClients], [3, 1])
    fleet.presentClients = [{ ...client, lossesLastHour: 2 }]
    await clock.advance(9_000)
    assert.equal(sampler.totals.losses, 3)
    await clock.advance(2_000)
    assert.deepEqual([sampler.totals.losses, sampler.totals.silentClients], [2, 0])
  })

  it('the sampler rejects if the first sample fails, and tries again when asked', async () => {
    fleet.failure = new Error('Redis is gone')
    await assert.rejects(sampler.ready(), /Redis is gone/)
    assert.equal(clock.pending, 0)
    fleet.failure = undefined
    await sampler.ready()
  })

  it('the sampler reports a failure, keeps what it knows and goes on', async () => {
    fleet.present = [heldLock('lock:a')]
    const differences = await listening()
    fleet.failure = new Error('Redis is gone')
    await clock.advance(1_000)
    assert.equal(differences[0]?.outage?.error, 'Redis is gone')
    assert.equal(sampler.rows().length, 1)
    fleet.failure = undefined
    await clock.advance(1_000)
    assert.equal(differences[1]?.outage, undefined)
  })

  it('the sampler samples at most 2,000 locks, and says that there are more', async () => {
    fleet.present = Array.from({ length: 2_500 }, (_, index) => heldLock(`lock:${index}`))
    await sampler.ready()
    assert.deepEqual([sampler.rows().length, sampler.totals.isTruncated], [2_000, true])
    fleet.present.length = 2_000
    await clock.advance(1_000)
    assert.deepEqual([sampler.rows().length, sampler.totals.isTruncated], [2_000, false])
  })

  it('the sampler spends at most a fifth of its time on all locks, and reads contended ones between', async () => {
    fleet.beforeRead = () => {
      // The first read of each pair is that of all locks.
      if (fleet.reads.all > reads) clock.block(2_000)
      reads = fleet.reads.all
    }
    let reads = 0
    await listening()
    await clock.advance(100_000)
    assert.ok(fleet.reads.all <= 11, `${fleet.reads.all}`)
    assert.ok(fleet.reads.contended >= 40, `${fleet.reads.contended}`)
  })

  it('the sampler notices between two reads of all locks that a contended lock is free', async () => {
    fleet.present = [heldLock('lock:a', { waiters: [waiter()] }), heldLock('lock:idle')]
    fleet.beforeRead = () => {
      if (fleet.reads.contended === 0) clock.block(10_000)
    }
    const differences = await listening()
    fleet.present = [heldLock('lock:idle')]
    await clock.advance(15_000)
    assert.ok(fleet.reads.contended > 0)
    assert.deepEqual(
      differences.flatMap(({ removed }) => removed),
      [idOf('lock:a')],
    )
    assert.equal(sampler.rows().length, 1)
  })

  it('the sampler keeps 15 minutes of history', async () => {
    await listening()
    await clock.advance(20 * 60_000)
    const { agoMs, held, waitP95Ms } = sampler.history()
    assert.equal(agoMs[0], 15 * 60_000)
    assert.equal(agoMs.length, 901)
    assert.deepEqual([held.length, waitP95Ms.length], [901, 901])
  })

  it('the sampler adds up what is held, waited for and how long', async () => {
    fleet.present = [
      heldLock('lock:a', {
        holders: [holder({ heldMs: 9_000 })],
        waiters: [waiter({ waitedMs: 100 }), waiter({ waitedMs: 700 })],
      }),
      heldLock('lock:b', { otherListeners: 2 }),
      heldLock('lock:free', { holders: [], waiters: [waiter({ waitedMs: 5 })] }),
    ]
    await sampler.ready()
    const { held, contended, waiters, oldestMs, waitP95Ms, newHolds } = sampler.totals
    assert.deepEqual([held, contended, waiters, oldestMs, waitP95Ms, newHolds], [2, 3, 5, 9_000, 700, 0])
    fleet.present = [...fleet.present, heldLock('lock:new')]
    await clock.advance(1_000)
    assert.equal(sampler.totals.newHolds, 1)
  })

  describe('the sampler of deadlocks', () => {
    const chain = (lock: string, owner: string) => ({ chain: [{ lock, holder: owner }] })
    const deadlocked = [
      heldLock('lock:a', {
        holders: [holder({ holder: 'c0ffee:1' })],
        waiters: [waiter({ wait: 7, ...chain('lock:b', 'beef:2') })],
      }),
      heldLock('lock:b', {
        holders: [holder({ holder: 'beef:2' })],
        waiters: [waiter({ wait: 8, ...chain('lock:a', 'c0ffee:1') })],
      }),
    ]

    it('the sampler names a deadlock with the first reply already', async () => {
      fleet.present = deadlocked
      await sampler.ready()
      assert.deepEqual(new Set(sampler.deadlocks.cycles[0]?.locks), new Set(['lock:a', 'lock:b']))
      assert.equal(sampler.totals.deadlocks, 1)
      fleet.present = []
      await clock.advance(1_000)
      assert.equal(sampler.totals.deadlocks, 0)
    })

    it('the sampler names a deadlock with the first sample that has it, which looks again', async () => {
      const differences = await listening()
      fleet.present = deadlocked
      await clock.advance(1_000)
      assert.deepEqual([differences.length, differences[0]?.totals.deadlocks], [1, 1])
    })

    it('the sampler names a deadlock only if it is still there', async () => {
      const differences = await listening()
      fleet.present = deadlocked
      fleet.beforeRead = () => {
        if (fleet.reads.contended > 0) fleet.present = []
      }
      await clock.advance(1_000)
      assert.deepEqual([fleet.reads.contended, differences[0]?.totals.deadlocks], [1, 0])
    })
  })

  it('the sampler draws who held a lock and who waited, also across a hand-off to the same holder', async () => {
    fleet.present = [heldLock('lock:a', { holders: [holder({ label: 'one' })], waiters: [waiter({ label: 'two' })] })]
    await listening()
    await clock.advance(5_000)
    fleet.present = [heldLock('lock:a', { holders: [holder({ label: 'two', heldMs: 0 })] })]
    await clock.advance(1_000)
    const { timeline } = await sampler.detail('lock:a')
    const ended = timeline.filter(({ endedAgoMs }) => endedAgoMs !== null)
    const open = timeline.filter(({ endedAgoMs }) => endedAgoMs === null)
    assert.ok(ended.some(({ role, label }) => role === 'holds' && label === 'one'))
    assert.ok(ended.some(({ role, label }) => role === 'waits' && label === 'two'))
    assert.deepEqual(
      open.map(({ role, label }) => [role, label]),
      [['holds', 'two']],
    )
  })

  it('the sampler keeps at most 100 bars of a lock', async () => {
    let number = 0
    fleet.beforeRead = () => {
      fleet.present = [heldLock('lock:a', { holders: [holder({ holder: `c0ffee:${++number}`, heldMs: 10 })] })]
    }
    await listening()
    await clock.advance(300_000)
    assert.equal((await sampler.detail('lock:a')).timeline.length, 100)
  })

  it('the sampler stops for good when it is closed, also during a sample', async () => {
    let release = (): void => {}
    fleet.beforeRead = () => new Promise<void>((resolve) => (release = resolve))
    const ready = sampler.ready()
    await turn()
    sampler.close()
    release()
    await ready
    assert.deepEqual([clock.pending, sampler.rows().length], [0, 0])
    await assert.rejects(sampler.ready(), /closed/)
  })
})

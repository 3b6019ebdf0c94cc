/** What the commands for operators print and return, on a fleet that is made up. */
process.env['TZ'] = 'UTC'

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { unlockCommand } from '../../src/cli/operate/describe.js'
import { parseFleetOptions } from '../../src/cli/operate/options.js'
import type { HolderInfo, LockInfo } from '../../src/fleet/lock-info.js'
import { userAtHost } from '../../src/platform.js'
import { durationOf } from '../../src/util/duration-text.js'
import { word } from '../../src/util/visible.js'
import { client, FakeFleet, holder, LOCKS, lockInfo, runOn, waiter } from '../support/fakes/fake-fleet.js'

const CONTROL = /(?![\n])[\p{Cc}\p{Bidi_Control}]/u
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'
/** Of Holdfast. */
const YOUNG = '9ab1c5d2-6e0f-4b7a-9c3d-22f0401dfa57'
const HOSTILE = '\x1b]0;gone\x07\u009b2J\u202e\r\n3 locks\u2028'

describe('holdfast ls', () => {
  it('holdfast ls lists what may never end first, then the oldest; by name or by waiters if asked', async () => {
    const namesOf = async (...args: string[]) => {
      const { output } = await runOn(new FakeFleet(), ['ls', ...args, '--json'])
      const lines = output
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.ok('summary' in lines.at(-1))
      return lines.slice(0, -1).map(({ name }) => name)
    }
    const oldest = ['lock:order:1001', 'lock:nightly', 'lock:stock:7', 'lock:account:17', 'lock:account:42']
    assert.deepEqual(await namesOf(), oldest)
    const endless = lockInfo('z', [{ holder: 'z:1', holdCount: 1, status: 'unlisted' }], [], {
      remainingLeaseMs: Number.POSITIVE_INFINITY,
    })
    const { output } = await runOn(new FakeFleet([...LOCKS, endless]), ['ls'])
    assert.match(output, /^LOCK.*\nz /)
    assert.deepEqual(await namesOf('--sort', 'name'), LOCKS.map(({ name }) => name).sort())
    assert.equal((await namesOf('--sort', 'waiters'))[1], 'lock:stock:7')
    assert.deepEqual(await namesOf('lock:s*'), ['lock:stock:7'])
    assert.deepEqual(await namesOf('--older-than', '30s'), ['lock:order:1001', 'lock:nightly', 'lock:stock:7'])
  })

  it('holdfast ls counts the clients by status, and says where something is not known', async () => {
    const [nightly, ...others] = LOCKS as [LockInfo, ...LockInfo[]]
    const fleet = new FakeFleet([{ ...nightly, doubts: [{ about: 'left-out', count: 1 }] }, ...others])
    assert.equal((await runOn(fleet, ['ls'])).exitCode, 0)
    fleet.doubts = [
      { about: 'silent-clients', count: 1, clients: [client('a', 'reports', 'rep-1', 7, '')] },
      { about: 'hidden-locks', count: 21, locks: ['x', 'y\nz'] },
    ]
    const { output, exitCode } = await runOn(fleet, ['ls'])
    assert.equal(exitCode, 2)
    assert.match(output, /lock:nightly .* ≥3 {2}nightly report\n/)
    assert.match(output, /5 locks · clients: ● 3 responding {2}○ 0 silent .* \? 1 unlisted\n! 1 client did not reply: /)
    assert.match(output, /: reports@rep-1 pid 7\n! this Redis user may not read 21 keys, .*: x, y\\u000az, …\n$/)
    assert.match((await runOn(fleet, ['ls', '--json'])).output, /"summary":\{"locks":5,"doubts":\[\{"about":"silent-cl/)
  })

  it('holdfast ls has a line for a lock without expiry, and one for a free lock that is waited for', async () => {
    const of = client('a', 'app', '', 3, '')
    const locks = [
      lockInfo('forever', [holder(of, 1, { heldMs: 10 })], [], { remainingLeaseMs: Number.POSITIVE_INFINITY }),
      lockInfo('waited', [], [waiter(of, 1, 10)], { remainingLeaseMs: 0 }),
    ]
    const { output } = await runOn(new FakeFleet(locks), ['ls'])
    assert.match(output, /forever +lock +10ms +app pid 3 +● +no end +0\n/)
    assert.match(output, /waited +lock +free +1\n/)
    assert.match((await runOn(new FakeFleet(locks), ['ls', '--json'])).output, /"remainingLeaseMs":null/)
  })

  it('holdfast ls says how many permits are free of how many, as far as Redis records that, and what a latch counts', async () => {
    const holders = [1, 2].map((n) => holder(client('a', 'app', '', 3, ''), n, { heldMs: 10 }))
    const permits = { kind: 'permit expirable semaphore', freePermits: 3 }
    const locks = [
      lockInfo('expirable', holders, [], permits),
      lockInfo('many', holders, [], { ...permits, doubts: [{ about: 'left-out', count: 1 }] }),
      lockInfo('plain', [], [], { kind: 'semaphore', freePermits: 0 }),
      lockInfo('latch', [], [], { kind: 'latch', count: 2 }),
    ]
    const { output } = await runOn(new FakeFleet(locks), ['ls'])
    assert.match(output, /expirable .* 3 of 5 permits free, app pid 3 \+1 /)
    assert.match(output, /many .* 3 permits free, app pid 3 \+1 /)
    assert.match(output, /plain +semaphore +no permit free +0\n/)
    assert.match(output, /latch +latch +2 to count down +0\n/)
  })
})

describe('holdfast who', () => {
  it('holdfast who returns 1 for a lock that is free', async () => {
    assert.deepEqual(await runOn(new FakeFleet(), ['who', 'none']), {
      exitCode: 1,
      output: 'none is free\n  no waiters\n',
    })
  })

  it('holdfast who prints every holder of a shared lock, and if asked the stack where it was taken', async () => {
    const of = client('a', 'app', 'host', 3, '')
    const stack = 'Error\n    at charge (app.js:1:2)'
    const readers = [1, 2].map((owner) => holder(of, owner, { mode: 'read', heldMs: 5_000, stack }))
    const fleet = new FakeFleet([lockInfo('rw', readers, [], { kind: 'read-write lock' })])
    const { output } = await runOn(fleet, ['who', 'rw'])
    assert.match(output, /^rw: read-write lock, 2 holders, lease 24\.1s left\n {2}held for reading, count 1, by a:1\n/)
    assert.match(output, / {4}break {3}holdfast unlock rw --holder a:2\n/)
    assert.doesNotMatch(output, /charge/)
    assert.match((await runOn(fleet, ['who', 'rw', '--stack'])).output, /\n {12}at charge \(app\.js:1:2\)\n/)
  })

  it('holdfast who says when there may be more waiters', async () => {
    const fleet = new FakeFleet([lockInfo('a', [], [], { doubts: [{ about: 'hidden-listeners', count: 1 }] })])
    const { output } = await runOn(fleet, ['who', 'a'])
    assert.match(output, /no waiters among what can be seen\n {2}! this Redis user may not see who waits/)
  })
})

describe('holdfast unlock', () => {
  const [{ holders = [] } = {}] = LOCKS
  const id = holders[0]?.holder ?? ''
  const args = ['unlock', 'lock:nightly', '--holder', id]

  it("holdfast unlock does nothing for another holder than the lock's, and returns 1", async () => {
    const fleet = new FakeFleet()
    const { exitCode, output } = await runOn(fleet, ['unlock', 'lock:nightly', '--holder', id.slice(0, 8), '--yes'])
    assert.equal(exitCode, 1)
    assert.match(output, new RegExp(`is not held by 9ab1c5d2: it is held by ${id}\n`))
    assert.match((await runOn(fleet, ['unlock', 'none', '--holder', id, '--yes'])).output, /it is free/)
    assert.deepEqual(fleet.orders, [])
  })

  it('holdfast unlock does nothing unless the name of the lock is typed, and returns 77', async () => {
    const fleet = new FakeFleet()
    assert.equal((await runOn(fleet, args, 'yes')).exitCode, 77)
    assert.equal((await runOn(fleet, args)).exitCode, 77, 'without a terminal')
    assert.deepEqual(fleet.orders, [])
    assert.equal((await runOn(fleet, args, 'lock:nightly')).exitCode, 0)
    assert.equal(fleet.orders.length, 1)
  })

  it('holdfast unlock passes on the reason and the grace', async () => {
    const fleet = new FakeFleet()
    await runOn(fleet, [...args, '--yes', '--reason', 'INC-4711', '--grace', '5s', '--anyway'])
    assert.deepEqual(fleet.orders[0], {
      name: 'lock:nightly',
      holder: id,
      graceMs: 5_000,
      by: userAtHost(),
      reason: 'INC-4711',
      anyway: true,
      quarantineMs: 0,
    })
  })

  it('holdfast unlock promises the lock to no waiter if other readers keep it', async () => {
    const readers = ['responding', 'silent', 'unlisted'].map((status, at) => ({
      holder: `${JAVA}:${at + 1}`,
      holdCount: 1,
      status,
    }))
    const fleet = new FakeFleet([lockInfo('r', readers as HolderInfo[], [])])
    for (const [at, sentence] of [
      /It loses the lock, which 2 other holders keep, once its work has stopped, after 2\.0s at the latest\./,
      /Unless it reacts within 4\.5s, nothing changes; --anyway would take the lock from it\./,
      /after 4\.5s the lock is taken from it, and 2 other holders keep it, even if this holder is still working\./,
    ].entries()) {
      const anyway = at === 2 ? ['--anyway'] : []
      const { output } = await runOn(fleet, ['unlock', 'r', '--holder', `${JAVA}:${at + 1}`, ...anyway], 'r')
      assert.match(output, sentence)
      assert.doesNotMatch(output, /next waiter/)
    }
  })

  it('holdfast unlock with a quarantine says for how long nobody has the lock, before and after', async () => {
    const fleet = Object.assign(new FakeFleet(), { outcome: 'freed', tookMs: 12_500 })
    const of = ['unlock', 'lock:stock:7', '--holder', LOCKS[2]?.holders[0]?.holder ?? '', '--grace', '0']
    const order = [...of, '--anyway', '--quarantine', '10s']
    const { output } = await runOn(fleet, order, 'lock:stock:7')
    assert.match(output, /after 2\.5s the lock is taken from it, and 10\.0s later freed for the next waiter/)
    assert.match(
      output,
      /freed: its holder did not react within 2\.5s, and nobody had the lock for 10\.0s after that$/m,
    )
    assert.equal(fleet.orders[0]?.quarantineMs, 10_000)
    assert.equal(JSON.parse((await runOn(fleet, [...order, '--yes', '--json'])).output).quarantineMs, 10_000)
    await assert.rejects(runOn(fleet, [...of, '--quarantine', '10s']), /--quarantine needs --anyway/)
  })

  it('holdfast unlock returns 0 for a freed lock, 75 for a silent holder, 1 for one that was faster', async () => {
    const fleet = new FakeFleet()
    for (const [outcome, code] of Object.entries({ released: 0, freed: 0, silent: 75, 'not-held': 1 })) {
      fleet.outcome = outcome as typeof fleet.outcome
      const { exitCode, output } = await runOn(fleet, [...args, '--yes', '--json'])
      assert.equal(exitCode, code)
      const { time, ...entry } = JSON.parse(output)
      assert.deepEqual(entry, { lock: 'lock:nightly', holder: id, by: userAtHost(), outcome })
      assert.equal(time, new Date(fleet.now).toISOString())
    }
  })

  it('holdfast unlock says beforehand what will happen to a holder that nobody can notify', async () => {
    const java = LOCKS[1]?.holders[0]?.holder ?? ''
    const order = ['unlock', 'lock:order:1001', '--holder', java]
    assert.match(
      (await runOn(new FakeFleet(), order, 'no')).output,
      /It cannot be notified\. Unless it reacts within 4\.5s, nothing changes/,
    )
    const { output } = await runOn(new FakeFleet(), [...order, '--anyway'], 'no')
    assert.match(output, /even if this holder is still working\.\nOnly data that is guarded by a fencing token/)
  })
})

describe('a holder that has only just taken its lock', () => {
  const young = { holder: `${YOUNG}:1`, holdCount: 1 }
  for (const [title, state] of Object.entries({
    'does not describe itself yet': { ...young, status: 'unlisted' },
    'has described itself, and does not listen yet': { ...young, status: 'disconnected', heldMs: 40 },
  } as const)) {
    it(`a holder that ${title} is not to be freed anyway: who and unlock say so`, async () => {
      const fleet = new FakeFleet([lockInfo('a', [state], [])])
      const { output } = await runOn(fleet, ['who', 'a'])
      assert.match(output, new RegExp(`${state.status}, or has only just taken the lock: look again\n`))
      const asked = await runOn(fleet, ['unlock', 'a', '--holder', `${YOUNG}:1`], 'no')
      assert.match(asked.output, /or has only just taken the lock\. Unless it reacts within 4\.5s, nothing changes\.\n/)
      assert.doesNotMatch(output + asked.output, /--anyway/)
    })
  }
})

describe('holdfast watch', () => {
  const of = client('a', 'app', 'host', 3, '')
  const linesOf = (output: string): string[] =>
    output
      .trim()
      .replace(/^\d\d:\d\d:\d\d\.\d{3} {2}/gm, '')
      .split('\n')

  /** Watches a lock that is in the next state at each look. */
  async function watched(states: LockInfo[], afterLook: (look: number, fleet: FakeFleet) => void, ...args: string[]) {
    const stop = new AbortController()
    const fleet = new FakeFleet(states.slice(0, 1))
    let look = 0
    fleet.onLook = () => {
      fleet.locksNow = states.slice(++look, look + 1)
      if (look === states.length) stop.abort()
      else afterLook(look, fleet)
    }
    const { output } = await runOn(fleet, ['watch', 'l', ...args], undefined, stop.signal)
    return linesOf(output)
  }

  it('holdfast watch prints what has changed at a lock between two looks', async () => {
    const states: LockInfo[] = [
      lockInfo('l', [holder(of, 1)], []),
      lockInfo('l', [holder(of, 1, { heldMs: 400 })], [waiter(of, 9, 10, { label: 'refund' })]),
      lockInfo('l', [holder(of, 2)], []),
      lockInfo('l', [], []),
    ]
    assert.deepEqual(await watched(states, () => {}, '--interval', '50ms'), [
      'held by app@host pid 3 ●',
      'app@host pid 3 ● is waiting, for refund',
      'no longer held by app@host pid 3 ●, after about 400ms',
      'app@host pid 3 ● is no longer waiting',
      'held by app@host pid 3 ●',
      'no longer held by app@host pid 3 ●',
      'free, 0 waiting',
    ])
  })

  it('holdfast watch looks at once after a message, and again soon for the grant that has none', async () => {
    const states: LockInfo[] = [
      lockInfo('l', [holder(of, 1)], []),
      lockInfo('l', [], []),
      lockInfo('l', [], []),
      lockInfo('l', [holder(of, 2)], []),
    ]
    const afterLook = (look: number, fleet: FakeFleet): void => {
      if (look === 1) for (let times = 0; times < 100; times++) fleet.publish()
    }
    assert.deepEqual(await watched(states, afterLook, '--interval', '1h'), [
      'held by app@host pid 3 ●',
      'no longer held by app@host pid 3 ●',
      'free, 0 waiting',
      'held by app@host pid 3 ●',
    ])
  })

  it('holdfast watch has a line for each hold that a client passed on, as far as its replies tell', async () => {
    const held = (heldMs: number, status: 'responding' | 'silent' = 'responding'): LockInfo =>
      lockInfo('l', [holder(of, 1, { heldMs, status })], [])
    const states = [held(500), held(900), held(20), held(10, 'silent'), held(5)]
    assert.deepEqual(await watched(states, () => {}, '--interval', '50ms'), [
      'held by app@host pid 3 ●',
      'no longer held by app@host pid 3 ●, after about 900ms',
      'held by app@host pid 3 ●',
    ])
  })
})

describe('holdfast top', () => {
  it('holdfast top has the contended locks first, and since when it has seen a hold of unknown age', async () => {
    const { output } = await runOn(new FakeFleet(), ['top', 'lock:*', '--once'])
    assert.match(output, /^03:14:33\.120 {2}5 locks · /)
    assert.deepEqual([...output.matchAll(/^lock:\S+/gm)].map(String), [
      'lock:nightly',
      'lock:stock:7',
      'lock:order:1001',
      'lock:account:17',
      'lock:account:42',
    ])
    assert.match(output, /lock:order:1001 +lock +>\d+ms/)
  })

  it('holdfast top drops a lock that is free at the next look', async () => {
    const stop = new AbortController()
    const fleet = new FakeFleet()
    let looks = 0
    fleet.onLook = () => {
      if (++looks === 1) fleet.locksNow = LOCKS.slice(1, 2)
      if (looks > 5) stop.abort()
    }
    const { output } = await runOn(fleet, ['top', '--json', '--interval', '50ms'], undefined, stop.signal)
    const [first = '', second = ''] = output.split('\n')
    const namesIn = (line: string) => JSON.parse(line).locks.map(({ name }: LockInfo) => name)
    assert.equal(namesIn(first).length, 5)
    assert.deepEqual(namesIn(second), ['lock:order:1001'])
  })
})

describe('holdfast deadlocks', () => {
  it('holdfast deadlocks does not word a possible one as a fact', async () => {
    const [one, other] = ['one', 'other'].map((name) => client(`${name}-401dfa57`, name, 'host', 1, '1.0.0'))
    if (!one || !other) throw new Error('there are two')
    const locks = [
      lockInfo('a', [holder(one, 1, { heldMs: 9_000 })], [waiter(other, 1, 5_000)]),
      lockInfo('b', [holder(other, 1, { heldMs: 9_000 })], [waiter(one, 1, 5_000)]),
    ]
    const { output, exitCode } = await runOn(new FakeFleet(locks), ['deadlocks'])
    assert.equal(exitCode, 0)
    assert.match(output, /^Possible deadlock of 2 holds: if it is one, it does not end by itself\n/)
    assert.match(output, / {2}a is held for 9\.0s by one@host pid 1 ●, may wait for b\n/)
  })

  it('holdfast deadlocks returns 1 if there is one, else 0; --watch prints what is new', async () => {
    assert.equal((await runOn(new FakeFleet(), ['deadlocks'])).exitCode, 1)
    assert.deepEqual(await runOn(new FakeFleet(LOCKS.slice(0, 3)), ['deadlocks']), {
      exitCode: 0,
      output: 'no deadlock\n',
    })
    const stop = new AbortController()
    const fleet = new FakeFleet()
    let looks = 0
    fleet.onLook = () => {
      if (++looks === 3) stop.abort()
    }
    const { output } = await runOn(fleet, ['deadlocks', '--watch', '--interval', '50ms'], undefined, stop.signal)
    assert.equal(output.match(/Deadlock of 2 holds/g)?.length, 1)
  })
})

describe('the command line', () => {
  it('the command line refuses options of other commands, and a lock name missing or not quoted', () => {
    const parse =
      (...args: string[]) =>
      () =>
        parseFleetOptions('who', args, {})
    assert.throws(parse('a', '--anyway'), /--anyway is not an option of who/)
    assert.throws(parse(), /no lock name/)
    assert.throws(parse('a', 'b'), /unexpected "b"/)
    assert.throws(parse('a', '--timeout', '5'), /no unit/)
    assert.throws(() => parseFleetOptions('ls', ['--sort', 'size'], {}), /expected name, age, waiters/)
    assert.throws(() => parseFleetOptions('unlock', ['a'], {}), /--holder is missing/)
    assert.throws(() => parseFleetOptions('deadlocks', ['a'], {}), /unexpected "a"/)
  })

  it('the command line prints no control character of a name, label or host, and no second line', async () => {
    const of = client('a', HOSTILE, HOSTILE, 3, HOSTILE)
    const hold = holder(of, 1, { label: HOSTILE, trace: HOSTILE, stack: HOSTILE, mode: 'read', holder: HOSTILE })
    const fleet = new FakeFleet([
      lockInfo(HOSTILE, [hold], [waiter(of, 1, 5, { label: HOSTILE, chain: [{ lock: HOSTILE, holder: HOSTILE }] })]),
    ])
    for (const args of [
      ['ls'],
      ['ls', '--json'],
      ['who', HOSTILE, '--stack'],
      ['top', '--once'],
      ['unlock', HOSTILE, '--holder', HOSTILE],
      ['unlock', HOSTILE, '--holder', 'other'],
      ['deadlocks'],
    ]) {
      const { output } = await runOn(fleet, args, 'no')
      assert.doesNotMatch(output, CONTROL, args[0])
      assert.ok(!output.split('\n').some((line) => line.startsWith('3 locks')), args[0])
    }
  })

  it('the command line prints a command for a shell that means the same name', () => {
    const hold = holder(client('a', '', '', 1, ''), 1)
    assert.equal(unlockCommand('lock:a', hold), 'holdfast unlock lock:a --holder a:1')
    assert.equal(unlockCommand('a b', { ...hold, status: 'silent' }), "holdfast unlock 'a b' --anyway --holder a:1")
    const young: HolderInfo = { holder: `${YOUNG}:1`, holdCount: 1, status: 'unlisted' }
    assert.equal(unlockCommand('a', young), `holdfast unlock a --holder ${YOUNG}:1`, 'it can be notified in a second')
    assert.doesNotMatch(unlockCommand('a', { ...hold, status: 'disconnected', heldMs: 999 }), /--anyway/)
    assert.match(unlockCommand('a', { ...young, holder: `${JAVA}:1` }), / --anyway /)
    assert.equal(unlockCommand("it's", hold), "holdfast unlock $'it\\'s' --holder a:1")
    assert.equal(unlockCommand('a\x1b\n', hold), "holdfast unlock $'a\\u001b\\u000a' --holder a:1")
    assert.equal(unlockCommand('-a', hold), "holdfast unlock '-a' --holder a:1")
  })

  it('the command line prints durations as exactly as is useful', () => {
    const texts = [0, 999, 1_000, 24_190, 59_999, 662_000, 8_073_000, 172_800_000, Number.POSITIVE_INFINITY]
    assert.deepEqual(texts.map(durationOf), [
      '0ms',
      '999ms',
      '1.0s',
      '24.1s',
      '59.9s',
      '11m 2s',
      '2h 14m',
      '2d 0h',
      'no end',
    ])
    assert.equal(word('a\tb'), 'a\\u0009b')
  })
})

import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { Election, ElectionOptions, LeaseLostError } from '../../src/index.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis } from '../support/fakes/fake-redis.js'

const NAME = 'leader:report'
/** Of the client's watchdog, by default. */
const LEASE_MS = 30_000
const LOST = { code: 'LOCK_LEASE_LOST' }

let clock: FakeClock
let redis: FakeRedis
let ports: FakePort[]
let clients: Client[]
let warnings: Error[]

beforeEach(() => {
  clock = new FakeClock()
  redis = new FakeRedis(clock)
  warnings = []
  ports = []
  clients = []
})

afterEach(async () => {
  await clock.until(Promise.all(clients.map((client) => client.close())))
  await turn()
  assert.equal(clock.keepingAlive, 0, 'no timer is left')
  assert.deepEqual(
    ports.flatMap((port) => port.channels),
    [],
  )
  assert.deepEqual(redis.keys, [])
})

/** A candidate, as in a process of its own, which keeps a diary. */
interface Candidate {
  readonly client: Client
  readonly port: FakePort
  readonly election: Election
  readonly diary: string[]
  signal(): AbortSignal
}

function newClient(options: Parameters<typeof fakeClient>[2] = {}): { client: Client; port: FakePort } {
  const port = new FakePort(clock, redis)
  const client = fakeClient(clock, port, options)
  client.on('warning', (warning) => warnings.push(warning))
  ports.push(port)
  clients.push(client)
  return { client, port }
}

function elect(
  onElected: ElectionOptions['onElected'] = () => {},
  options: Parameters<typeof fakeClient>[2] = {},
): Candidate {
  const { client, port } = newClient(options)
  const diary: string[] = []
  let latest: AbortSignal | undefined
  const election = client.elect(NAME, {
    onElected: async (signal, hold) => {
      latest = signal
      diary.push(`elected ${hold.fencingToken}`)
      await onElected(signal, hold)
    },
    onLost: ({ reason }) => diary.push(`lost: ${reason}, ${latest?.aborted ? 'after' : 'before'} the abort`),
  })
  const signal = (): AbortSignal => {
    assert(latest, 'it was elected')
    return latest
  }
  return { client, port, election, diary, signal }
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => void clock.after(ms, resolve))
}

/** Work that a test ends, whatever becomes of its signal. */
function work(): { done: () => void; onElected: () => Promise<void> } {
  let done = (): void => {}
  const ended = new Promise<void>((resolve) => {
    done = resolve
  })
  return { done, onElected: () => ended }
}

describe('an election', () => {
  it('an election has one leader, and the next one, with a higher token, once that resigns', async () => {
    const [first, second, third] = [elect(), elect(), elect()]
    await clock.advance(10 * LEASE_MS)
    assert.deepEqual([first.diary, second.diary, third.diary], [['elected 1'], [], []])
    assert.deepEqual([first.election.isLeader, second.election.isLeader], [true, false])

    const before = clock.now()
    await clock.until(first.election.resign())
    await clock.advance(50)
    assert(clock.now() - before < 100)
    assert.deepEqual([...second.diary, ...third.diary], ['elected 2'])
    assert.equal(first.election.isLeader, false)
    assert.equal(first.signal().reason.name, 'AbortError')
    assert.deepEqual(first.diary, ['elected 1'], 'what was resigned is not lost')
    await first.election.finished
    await clock.advance(2 * LEASE_MS)
    assert.deepEqual(warnings, [])
  })

  it('leadership outlasts onElected', async () => {
    const leader = elect(() => 'ready')
    await clock.advance(10 * LEASE_MS)
    assert.equal(leader.election.isLeader, true)
    assert.equal(leader.signal().aborted, false)
  })

  it('a leader that resigns keeps the others out until onElected has ended', async () => {
    const { done, onElected } = work()
    const leader = elect(onElected)
    const other = elect()
    await clock.advance(100)
    const resigned = leader.election.resign()
    assert.equal(leader.signal().aborted, true)
    assert.equal(leader.election.isLeader, false)
    await clock.advance(3 * LEASE_MS)
    assert.deepEqual(other.diary, [])
    assert.deepEqual(
      warnings.map((warning) => (warning as { code?: string }).code),
      ['LEADER_STILL_RUNNING'],
    )
    done()
    await clock.until(resigned)
    await clock.advance(50)
    assert.deepEqual(other.diary, ['elected 2'])
  })

  it('a candidate that resigns is never elected, even if its grant is on the way', async () => {
    const { client, port } = newClient()
    port.once('fenced-lock/acquire', { requestMs: 100, replyMs: 400 })
    const election = client.elect(NAME, { onElected: () => assert.fail('elected') })
    await clock.advance(300)
    await clock.until(election.resign())
    await clock.advance(1_000)
    assert.deepEqual(redis.keys, [])
  })

  it('a resignation succeeds although Redis refuses the release, which is repeated', async () => {
    const leader = elect()
    const other = elect()
    await clock.advance(100)
    leader.port.once('lock/release-queued', { errorReply: 'NOAUTH Authentication required.' })
    await clock.until(leader.election.resign())
    await leader.election.finished
    await clock.advance(500)
    assert.deepEqual(other.diary, ['elected 2'])
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['NOAUTH Authentication required.'],
    )
  })

  it('a resignation succeeds although the lock was freed by force, which nobody noticed', async () => {
    const leader = elect()
    const { client } = newClient()
    await clock.advance(100)
    await clock.until(client.getFencedLock(NAME).forceUnlock())
    await clock.until(leader.election.resign())
    await leader.election.finished
    assert.deepEqual([leader.diary, warnings], [['elected 1'], []])
  })

  it('onElected may resign itself, and need not wait for its own end', async () => {
    let election: Election | undefined
    const leader = elect(async () => await election?.resign())
    election = leader.election
    const other = elect()
    await clock.until(leader.election.finished)
    await clock.advance(50)
    assert.deepEqual(other.diary, ['elected 2'])
  })

  it('an election ends with an `await using` block', async () => {
    const { client } = newClient()
    {
      await using election = client.elect(NAME, { onElected: () => {} })
      await clock.advance(10)
      assert.equal(election.isLeader, true)
    }
    assert.deepEqual(redis.keys, [])
  })

  it("an election inside a hold of the lock does not re-enter it, and the leader's work does", async () => {
    const { client } = newClient()
    let election: Election | undefined
    let inner: number | undefined
    await clock.until(
      client.getFencedLock(NAME).withLock(async () => {
        election = client.elect(NAME, {
          onElected: () => client.getFencedLock(NAME).withLock(({ count }) => (inner = count)),
        })
        await pause(1_000)
        assert.equal(election.isLeader, false)
      }),
    )
    await clock.advance(100)
    assert.equal(election?.isLeader, true)
    assert.equal(inner, 2)
  })

  it("an election has no limits of its own: the client's limits for waits and holds do not apply", async () => {
    const options = { maxHoldMs: 1_000, warnAfterMs: 1_000 }
    const events: string[] = []
    const [leader, candidate] = [elect(undefined, options), elect(undefined, options)]
    for (const { client } of [leader, candidate]) {
      for (const event of ['longWait', 'longHold', 'lost'] as const) client.on(event, () => events.push(event))
    }
    await clock.advance(10 * 60_000)
    assert.deepEqual(events, [])
    assert.equal(leader.election.isLeader, true)
  })

  it('an election refuses what cannot work, at once', async () => {
    const { client } = newClient()
    for (const options of [
      undefined,
      {},
      { onElected: 'x' },
      { onElected: () => {}, onLost: 1 },
      { onElected: () => {}, leaseTimeMs: 1 },
      // A generator function would return without running.
      { onElected: function* () {} },
    ]) {
      assert.throws(() => client.elect(NAME, options as never), { code: 'LOCK_CONFIG', lockName: NAME })
    }
    const allowed = 'a function to call when elected'
    assert.throws(() => client.elect(NAME, {} as never), { path: 'onElected', allowed, lockName: NAME })
    assert.throws(() => client.elect('', { onElected: () => {} }), { code: 'LOCK_CONFIG' })
    await clock.until(client.close())
    assert.throws(() => client.elect(NAME, { onElected: () => {} }), { code: 'LOCK_CLIENT_CLOSED' })
  })
})

describe('a leader that loses its lease', () => {
  it('a leader that loses its lease learns of it at the next renewal, and campaigns again', async () => {
    const leader = elect()
    await clock.advance(100)
    redis.delete(NAME)
    const rival = elect()
    await clock.advance(LEASE_MS)
    assert.deepEqual(rival.diary, ['elected 2'])
    assert.deepEqual(leader.diary, ['elected 1', 'lost: gone, after the abort'])
    assert.equal((leader.signal().reason as LeaseLostError).code, 'LOCK_LEASE_LOST')
    await clock.until(rival.election.resign())
    await clock.advance(100)
    assert.deepEqual(leader.diary.slice(2), ['elected 3'])
  })

  it('a leader that loses its lease leaves another candidate time, whom an operator wants', async () => {
    const leader = elect()
    await clock.advance(100)
    await clock.until(leader.client.getLock(NAME).forceUnlock())
    assert.deepEqual(leader.diary, ['elected 1', 'lost: forced, after the abort'])
    await clock.advance(400)
    assert.deepEqual(redis.keys, [])
    await clock.advance(600)
    assert.deepEqual(leader.diary.slice(2), ['elected 2'])
  })

  it('a leader that loses its lease campaigns again only when onElected has ended, and says so', async () => {
    const { done, onElected } = work()
    const leader = elect(onElected)
    await clock.advance(100)
    await clock.until(leader.client.getLock(NAME).forceUnlock())
    await clock.advance(10 * LEASE_MS)
    assert.deepEqual(leader.diary, ['elected 1', 'lost: forced, after the abort'])
    assert.match(warnings.join(), /onElected of the election "leader:report" has not ended 30000 ms after/)
    done()
    await clock.advance(1_500)
    assert.deepEqual(leader.diary.slice(2), ['elected 2'])
  })

  it('a leader that loses its lease notices in the first turn after a pause: the signal aborts', async () => {
    let seen: unknown[] = []
    const leader = elect(async (signal, hold) => {
      await pause(1_000)
      clock.block(LEASE_MS)
      assert.throws(() => hold.assertHeld(), LOST)
      seen = [leader.election.isLeader, signal.aborted]
      hold.assertHeld()
    })
    await clock.advance(1_100)
    assert.deepEqual(seen, [false, true])
    assert.deepEqual(warnings, [], 'the loss is no failure of onElected')
    assert.deepEqual(leader.diary.slice(0, 2), ['elected 1', 'lost: expired, after the abort'])
  })

  it('an error of onLost is a warning', async () => {
    const { client } = newClient()
    const election = client.elect(NAME, {
      onElected: () => {},
      onLost: () => Promise.reject(new Error('no pager')),
    })
    await clock.advance(100)
    await clock.until(client.getLock(NAME).forceUnlock())
    await turn()
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['no pager'],
    )
    await clock.advance(1_500)
    assert.equal(election.isLeader, true)
  })
})

describe('an error of onElected', () => {
  it('an error of onElected aborts the signal, passes leadership on, and ends the election', async () => {
    const failure = new Error('no disk')
    const leader = elect(async () => {
      await pause(100)
      throw failure
    })
    const finished = assert.rejects(leader.election.finished, failure)
    const other = elect()
    await clock.advance(200)
    await finished
    assert.equal(leader.signal().reason, failure)
    assert.deepEqual(leader.diary, ['elected 1'])
    assert.deepEqual(other.diary, ['elected 2'])
    await assert.rejects(leader.election.resign(), failure)
  })

  it('an error of onElected after the abort is a warning, unless it is the abort itself', async () => {
    const aborted = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve()))
    const endings: ((signal: AbortSignal) => unknown)[] = [
      (signal) => signal.throwIfAborted(),
      () => {
        throw new DOMException('stopped', 'AbortError')
      },
      () => {
        throw new Error('clean-up failed')
      },
    ]
    for (const ending of endings) {
      const leader = elect(async (signal) => {
        await aborted(signal)
        ending(signal)
      })
      await clock.advance(100)
      await clock.until(leader.election.resign())
    }
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['clean-up failed'],
    )
  })
})

describe('a client that closes', () => {
  it('a client that closes resigns at once, also in a drain, which waits for onElected', async () => {
    const { done, onElected } = work()
    const leader = elect(onElected)
    const other = elect()
    await clock.advance(100)
    const startedAt = clock.now()
    const closed = leader.client.close({ drainMs: 10_000 })
    assert.equal(leader.signal().aborted, true)
    await clock.advance(200)
    assert.deepEqual(other.diary, [])
    done()
    await clock.until(closed)
    await clock.advance(50)
    assert(clock.now() - startedAt < 1_000)
    assert.deepEqual(other.diary, ['elected 2'])
    assert.deepEqual(leader.diary, ['elected 1'])
    await leader.election.finished
  })

  it('a client that closes releases the lock when the drain is over, whatever onElected does', async () => {
    const { done, onElected } = work()
    const leader = elect(onElected)
    const other = elect()
    await clock.advance(100)
    await clock.until(leader.client.close({ drainMs: 1_000 }))
    await clock.advance(100)
    assert.deepEqual(other.diary, ['elected 2'])
    done()
    await leader.election.finished
  })

  it('a client that closes on a signal resigns at once, while `before` finishes the rest', async () => {
    const leader = elect()
    const other = elect()
    await clock.advance(100)
    const ignore = (): void => {} // else the signal would end this process
    process.on('SIGTERM', ignore)
    try {
      const { done, onElected: before } = work()
      leader.client.closeOnSignals({ before })
      process.emit('SIGTERM', 'SIGTERM')
      assert.equal(leader.signal().aborted, true)
      await clock.advance(50)
      assert.deepEqual(other.diary, ['elected 2'])
      await leader.client.getLock('a').withLock(() => {})
      done()
      while (process.listenerCount('SIGTERM') > 1) await clock.advance(10)
    } finally {
      process.off('SIGTERM', ignore)
    }
    assert.deepEqual(leader.diary, ['elected 1'])
  })

  it('a client that closes ends its candidacy, also between two campaigns', async () => {
    const [leader, candidate] = [elect(), elect()]
    await clock.advance(100)
    await clock.until(leader.client.getLock(NAME).forceUnlock()) // now it pauses
    await clock.until(
      Promise.all([leader.client.close({ drainMs: 60_000 }), candidate.client.close({ drainMs: 60_000 })]),
    )
    await leader.election.finished
    await candidate.election.finished
  })
})

describe('a campaign that fails', () => {
  for (const errorReply of [
    "OOM command not allowed when used memory > 'maxmemory'.",
    'NOAUTH Authentication required.',
    'WRONGPASS invalid username-password pair or user is disabled.',
    'ERR upstream failure',
    'no upstream host',
    'ERR max number of clients reached',
    'UNBLOCKED force unblock',
    'NOGOODSLAVE No suitable replica',
    'MOVED 3999 127.0.0.1:6381',
    'ERR Error running script: @user_script:5: Script killed by user with SCRIPT KILL.',
  ]) {
    it(`a failed campaign is repeated, with a warning, as long as the error may pass: ${errorReply}`, async () => {
      const { client, port } = newClient()
      // For longer than any outage that a wait rides out.
      const until = clock.now() + 40_000
      port.fault = ({ name }) => (name === 'fenced-lock/acquire' && clock.now() < until ? { errorReply } : undefined)
      const election = client.elect(NAME, { onElected: () => {} })
      await clock.advance(39_000)
      assert(warnings.join().includes(`Cannot campaign in the election "leader:report" (${errorReply}); retrying`))
      await clock.advance(40_000)
      assert.equal(election.isLeader, true)
    })
  }

  for (const [errorReply, expected] of [
    ['NOPERM this user has no permissions', /NOPERM/],
    ['WRONGTYPE Operation against a key holding the wrong kind of value', /WRONGTYPE/],
    ["ERR unknown command 'EVALSHA'", /unknown command/],
  ] as const) {
    it(`a failed campaign ends the election if the error will not go away: ${errorReply}`, async () => {
      const { client, port } = newClient()
      port.once('fenced-lock/acquire', { errorReply })
      const election = client.elect(NAME, { onElected: () => {} })
      await assert.rejects(clock.until(election.finished), expected)
    })
  }
})

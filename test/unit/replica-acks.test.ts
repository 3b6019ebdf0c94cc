/** Which confirmations of replicas and disks count: those of the connection that a grant was sent on. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Client } from '../../src/client.js'
import { Durability } from '../../src/delivery/durability.js'
import { mayBeGranted, Replication } from '../../src/delivery/replica-acks.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { NotDurableError, NotReplicatedError } from '../../src/errors.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis } from '../support/fakes/fake-redis.js'

const LOCK = { key: 'a', name: 'a' }

describe('the connection of a confirmation', () => {
  const clock = new FakeClock()
  const port = {
    acknowledge: async () => ({ replicas: 1, acknowledged: 1 }),
    fsynced: async () => 'fsynced',
  } as unknown as RedisPort

  it('a WAIT after a reconnect does not confirm a grant that was sent before it', async () => {
    const scripts = new Scripts(port, clock, 1_000)
    const replication = new Replication(clock, scripts, 1_000, assert.fail)
    const route = replication.routeTo('a')
    await replication.confirm(LOCK, route)
    scripts.reconnects++
    const message = /cannot show that it is the master \(the connection was lost/
    await assert.rejects(replication.confirm(LOCK, route), { code: 'LOCK_NOT_REPLICATED', message })
    await replication.confirm(LOCK, replication.routeTo('a'))
  })

  it('a WAITAOF after a reconnect does not confirm a grant that was sent before it', async () => {
    const scripts = new Scripts(port, clock, 1_000)
    const replication = new Replication(clock, scripts, undefined, assert.fail, new Durability(scripts, 1_000))
    const route = replication.routeTo('a')
    await replication.confirm(LOCK, route)
    scripts.reconnects++
    await assert.rejects(replication.confirm(LOCK, route), { code: 'LOCK_NOT_DURABLE' })
    await replication.confirm(LOCK, replication.routeTo('a'))
  })
})

describe('a confirmation', () => {
  const clock = new FakeClock()

  /** @param replies  of the server, or what it throws */
  function confirm(replies: Partial<Record<'acknowledge' | 'fsynced', unknown>>, warnings: Error[] = []) {
    const ask = (what: 'acknowledge' | 'fsynced') => async () => {
      calls.push(what)
      if (replies[what] instanceof Error) throw replies[what]
      return replies[what]
    }
    const calls: string[] = []
    const port = { acknowledge: ask('acknowledge'), fsynced: ask('fsynced'), isErrorReply: () => true }
    const scripts = new Scripts(port as unknown as RedisPort, clock, 1_000)
    const [syncMs, durability] = ['acknowledge' in replies ? 1_000 : undefined, new Durability(scripts, 1_000)]
    const warn = (warning: Error): void => void warnings.push(warning)
    const replication = new Replication(clock, scripts, syncMs, warn, 'fsynced' in replies ? durability : undefined)
    return { calls, replication, run: () => replication.confirm(LOCK, replication.routeTo('a')) }
  }

  it('a confirmation is wanted from replicas or from the disk, or from neither', () => {
    assert.equal(confirm({}).replication.isWanted, false)
    assert.equal(confirm({ acknowledge: undefined }).replication.isWanted, true)
    assert.equal(confirm({ fsynced: undefined }).replication.isWanted, true)
    assert.equal(confirm({}).replication.routeTo('a'), '')
    assert.equal(confirm({}).replication.isLocated('a'), true)
    assert.equal(confirm({ acknowledge: undefined }).replication.isLocated('a'), true)
  })

  it('a confirmation by replicas needs one of them, if there are any', async () => {
    await confirm({ acknowledge: { replicas: 2, acknowledged: 1 } }).run()
    await confirm({ acknowledge: { replicas: 0, acknowledged: 0 } }).run()
    const warnings: Error[] = []
    await confirm({ acknowledge: undefined }, warnings).run()
    assert.deepEqual(warnings, [], 'they cannot be asked')
    const missing = confirm({ acknowledge: { replicas: 2, acknowledged: 0 } })
    await assert.rejects(missing.run(), { code: 'LOCK_NOT_REPLICATED', message: /2 replicas|of 2/ })
    const replaced = confirm({ acknowledge: { replicas: 1, acknowledged: 0, why: 'it was replaced' } })
    await assert.rejects(replaced.run(), { code: 'LOCK_NOT_REPLICATED', message: /the master \(it was replaced\)/ })
  })

  it('a confirmation that a server cannot give while its role changes is none', async () => {
    for (const reply of [
      'READONLY You cannot write',
      'LOADING Redis is loading',
      'UNBLOCKED force unblock',
      'NOAUTH Authentication required.',
      'ERR upstream failure',
      'ERR WAIT cannot be used with replica instances',
    ]) {
      const error = new Error(reply)
      await assert.rejects(confirm({ acknowledge: error }).run(), { code: 'LOCK_NOT_REPLICATED', cause: error })
      await assert.rejects(confirm({ fsynced: error }).run(), {
        code: 'LOCK_NOT_DURABLE',
        reason: 'late',
        cause: error,
      })
    }
  })

  it('a confirmation by replicas that Redis does not let the client ask for is skipped for a minute', async () => {
    const warnings: (Error & { code?: string })[] = []
    const cause = new Error('NOPERM no permissions')
    const { calls, run, replication } = confirm({ acknowledge: cause }, warnings)
    await run()
    await run()
    await clock.advance(59_999)
    await run()
    replication.checkMaster('a')
    assert.deepEqual(calls, ['acknowledge'])
    await clock.advance(1)
    replication.checkMaster('a')
    await run()
    assert.deepEqual(calls, ['acknowledge', 'acknowledge', 'acknowledge'])
    assert.equal(warnings[0]?.code, 'WAIT_REFUSED')
    assert.equal(warnings[0]?.cause, cause)
    assert.match(warnings[0]?.message ?? '', /NOPERM/)
  })

  it('a confirmation by the disk is refused by servers that cannot give it, or late if not in time', async () => {
    const { calls, run } = confirm({ fsynced: 'fsynced' })
    await run()
    assert.deepEqual(calls, ['fsynced'], 'replicas are not asked')
    for (const [fsynced, reason, said] of [
      [undefined, 'refused', /does not support WAITAOF/],
      ['premature', 'refused', /appendfsync always/],
      ['late', 'late', /not within 667 ms/],
      [new Error('NOPERM no permissions'), 'refused', /NOPERM/],
      [new Error("ERR unknown command 'WAITAOF'"), 'refused', /unknown command/],
      [
        new Error('ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.'),
        'refused',
        /appendonly is disabled/,
      ],
    ] as const) {
      await assert.rejects(confirm({ fsynced }).run(), { code: 'LOCK_NOT_DURABLE', reason, message: said })
    }
  })

  it('a confirmation without a reply is unknown', async () => {
    const cause = new NoReplyError('gone')
    await assert.rejects(confirm({ fsynced: cause }).run(), cause)
    await assert.rejects(confirm({ acknowledge: cause }).run(), cause)
  })

  it('a confirmation that failed leaves a grant to release', () => {
    assert.equal(mayBeGranted(new NoReplyError('gone')), true)
    assert.equal(mayBeGranted(new NotReplicatedError('a', 1, 1_000, {})), true)
    assert.equal(mayBeGranted(new NotDurableError('a', 'late', 'not in time')), true)
    assert.equal(mayBeGranted(new Error('NOPERM')), false)
  })
})

describe('a renewal', () => {
  for (const checkLockSyncedSlaves of [true, false]) {
    const does = checkLockSyncedSlaves ? 'asks' : 'does not ask'
    const when = checkLockSyncedSlaves ? 'where grants are acknowledged' : 'where they are not'
    it(`a renewal ${does} whether the server is still the master ${when}`, async () => {
      const clock = new FakeClock()
      let asked = 0
      const acknowledge = async (): Promise<object> => ({ replicas: 1, acknowledged: 1, asked: ++asked })
      const port = Object.assign(new FakePort(clock, new FakeRedis(clock)), { acknowledge }) as RedisPort
      const random = { uuid: () => 'client', fraction: () => 0.5 }
      const client = new Client(port, { checkLockSyncedSlaves }, { clock, random })
      await client.getLock('a').lock()
      const before = asked
      await clock.advance(30_500)
      assert.equal(asked - before, checkLockSyncedSlaves ? 3 : 0, 'once for each of three renewals')
      await clock.until(client.close())
    })
  }

  it('a renewal is not affected by the reply of a confirmation', async () => {
    const clock = new FakeClock()
    const refused = async (): Promise<object> => ({ replicas: 1, acknowledged: 0, why: 'it was replaced' })
    const granted = async (): Promise<object> => ({ replicas: 1, acknowledged: 1 })
    const port = Object.assign(new FakePort(clock, new FakeRedis(clock)), { acknowledge: granted })
    const random = { uuid: () => 'client', fraction: () => 0.5 }
    const client = new Client(port as RedisPort, { checkLockSyncedSlaves: true }, { clock, random })
    const hold = await client.getLock('a').lock()
    port.acknowledge = refused
    await clock.advance(60_000)
    assert.equal(hold.isLive, true)
    await clock.until(client.close())
  })
})

describe('adopt() with replicas', () => {
  let clock: FakeClock
  let clients: Client[]

  beforeEach(() => {
    clock = new FakeClock()
    clients = []
  })

  afterEach(async () => await clock.until(Promise.all(clients.map((client) => client.close()))))

  for (const acknowledged of [1, 0]) {
    it(`adopt() ${acknowledged > 0 ? 'succeeds' : 'is refused'} when ${acknowledged} of 1 replica acknowledges`, async () => {
      const redis = new FakeRedis(clock)
      const random = { uuid: () => `client-${clients.length}`, fraction: () => 0.5 }
      let calls = 0
      for (let n = 0; n < 2; n++) {
        const acknowledge = async (): Promise<object> => ({ replicas: 1, acknowledged: ++calls > 1 ? acknowledged : 1 })
        const port = Object.assign(new FakePort(clock, redis), { acknowledge })
        clients.push(new Client(port as RedisPort, { checkLockSyncedSlaves: true }, { clock, random }))
      }
      const [one, other] = clients.map((client) => client.getLock('a'))
      const holder = (await one?.lock())?.handOver() as string
      const adopting = other?.adopt(holder)
      if (acknowledged > 0) {
        await (await adopting)?.unlock()
      } else {
        await assert.rejects(adopting as Promise<unknown>, { code: 'LOCK_NOT_REPLICATED' })
        await clock.advance(1_000)
        assert.deepEqual(redis.keys, [], 'what was adopted is released in the background')
      }
      assert.equal(calls, 2)
    })
  }

  it('adopt() rejects with OutcomeUnknownError when the replicas cannot be asked in time', async () => {
    const redis = new FakeRedis(clock)
    redis.set('a', 'other:1', 1, 30_000)
    const acknowledge = (): Promise<never> => new Promise(() => {})
    const port = Object.assign(new FakePort(clock, redis), { acknowledge })
    const random = { uuid: () => 'client', fraction: () => 0.5 }
    const client = new Client(port as RedisPort, { checkLockSyncedSlaves: true }, { clock, random })
    clients.push(client)
    await assert.rejects(clock.until(client.getLock('a').adopt('other:1')), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(1_000)
    assert.deepEqual(redis.keys, [], 'what was adopted is released in the background')
  })
})

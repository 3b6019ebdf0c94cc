/** Calls of one script that are made in the same turn of the event loop go to Redis as one command. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const names = (count: number): string[] => Array.from({ length: count }, (_, n) => `order:${n}`)

const take = (client: Client, of: readonly string[]): Promise<Hold[]> =>
  Promise.all(of.map((name) => client.getLock(name).lock()))

async function letGo(holds: readonly Hold[]): Promise<void> {
  await Promise.all(holds.map((hold) => hold.unlock()))
}

describe('calls made in the same turn of the event loop', () => {
  const fixture = setUpFixture()

  it('32 locks requested in one turn cost one command, and each caller gets its own lock', async () => {
    const client = await fixture.connect()
    const other = await fixture.connect()
    for (let round = 0; round < 3; round++) await letGo(await take(client, names(40))) // Redis knows the scripts from here on
    const taken = await other.getLock('order:7').lock()
    const count = await countCommands(fixture.server, async () => {
      const holds = await Promise.all(names(40).map((name) => client.getLock(name).tryLock()))
      assert.deepEqual(
        holds.flatMap((hold, n) => (hold ? [] : [n])),
        [7],
      )
      const held = holds.filter((hold) => hold !== null)
      for (const { lockName, holder } of held) assert.deepEqual(await fixture.server.admin.hkeys(lockName), [holder])
      await letGo(held)
    })
    assert.equal(count.scripts, 4)
    await taken.unlock()
  })

  it('long names are split over several commands, and so are their renewals', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 6_000 })
    const long = names(8).map((name) => name.padEnd(100_000, 'x'))
    await letGo(await take(client, long)) // Redis knows the scripts from here on
    const taking = await countCommands(fixture.server, async () => {
      const holds = await take(client, long)
      const renewing = await countCommands(fixture.server, () => sleep(2_500))
      assert(renewing.scripts >= 8, `${renewing.scripts} commands for the renewals`)
      await letGo(holds)
    })
    assert(taking.scripts >= 24, `${taking.scripts} commands in all`)
  })

  it('a batch is sent again when Redis has lost the script', async () => {
    const client = await fixture.connect()
    await letGo(await take(client, names(3)))
    await fixture.server.admin.script('FLUSH')
    await letGo(await take(client, names(3)))
  })

  it('a batch with failing calls rejects only those calls, each with its own Redis error', async () => {
    const client = await fixture.connect()
    await fixture.server.admin.set('order:1', 'a string')
    const outcomes = await Promise.allSettled(names(4).map((name) => client.getLock(name).lock()))
    await fixture.server.admin.del('order:1')
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    )
    const { reason } = outcomes[1] as PromiseRejectedResult
    assert.equal(reason.name, 'WrongTypeError')
    assert.match(reason.message, /WRONGTYPE/)
    await letGo(outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])))
  })

  it('a batch rejects only the call whose script returns an error instead of raising it', async () => {
    const client = await fixture.connect()
    await fixture.server.admin.hset('order:1', 'name', 'Ada', 'visits', 12)
    const outcomes = await Promise.allSettled(names(3).map((name) => client.getFasterMultiLock(name, ['x']).lock()))
    await fixture.server.admin.del('order:1')
    assert.deepEqual(
      outcomes.map((outcome) =>
        outcome.status === 'fulfilled' ? 'held' : /WRONGTYPE[^:]*/.exec(outcome.reason.message)?.[0],
      ),
      ['held', 'WRONGTYPE the hash is not a group of values', 'held'],
    )
    await letGo(outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])))
  })

  it('forceUnlock() of many locks in one turn costs two commands, and frees each of them', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    await take(other, names(9))
    const force = (of: readonly string[]) => Promise.all(of.map((name) => client.getLock(name).forceUnlock()))
    assert.deepEqual(await force(names(1)), [true]) // Redis knows the scripts for one call from here on
    assert.deepEqual(await force(names(3)), [false, true, true]) // and those for many
    const counts: number[] = []
    for (let round = 0; round < 3; round++) {
      const count = await countCommands(fixture.server, async () => {
        const wasHeld = round > 0 ? Array(9).fill(true) : [...Array(3).fill(false), ...Array(6).fill(true)]
        assert.deepEqual(await force(names(9)), wasHeld)
      })
      counts.push(count.scripts)
      await take(other, names(9))
    }
    await force(names(9))
    // On a busy machine with those that delete the stored replies of rounds before.
    assert(Math.min(...counts) <= 4, `${counts} commands`)
    assert.deepEqual(await fixture.server.admin.keys('order:*'), [])
  })

  it('a batch rejects only the calls whose key the user may not access', async () => {
    const { admin, port } = fixture.server
    const line = (await admin.call('ACL', 'LIST')) as string[]
    const rights = line.find((rule) => rule.startsWith('user default'))?.replace('user default', '') ?? ''
    await admin.call('ACL', 'SETUSER', 'orders', ...rights.trim().split(' '), 'resetkeys', '~order:*', '~holdfast_*')
    fixture.onEnd(() => admin.call('ACL', 'DELUSER', 'orders'))
    const client = await fixture.connect({}, `redis://orders:any@127.0.0.1:${port}`)
    // The first of them is the one for which a new client asks Redis for the time.
    const outcomes = await Promise.allSettled(
      ['invoice:1', 'order:1', 'invoice:2', 'order:2'].map((name) => client.getLock(name).lock()),
    )
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.status === 'fulfilled' ? 'held' : outcome.reason.message.split(' ')[0])),
      ['NOPERM', 'held', 'NOPERM', 'held'],
    )
    await letGo(outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])))
  })

  it('a batch without a reply has an unknown outcome for every caller, and its grants are released', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 300 })
    await letGo(await take(client, names(3))) // Redis knows the scripts from here on
    proxy.holdReplies()
    const outcomes = await Promise.allSettled(names(3).map((name) => client.getLock(name).tryLock()))
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'held')),
      ['LOCK_OUTCOME_UNKNOWN', 'LOCK_OUTCOME_UNKNOWN', 'LOCK_OUTCOME_UNKNOWN'],
    )
    proxy.pass()
    await waitUntil(async () => (await fixture.server.admin.exists(...names(3))) === 0)
  })

  it('grants of a batch are released for callers that gave up, and all of them when the client closes in that turn', async () => {
    const client = await fixture.connect()
    const abort = new AbortController()
    const outcomes = Promise.allSettled(
      names(4).map((name, n) => client.getLock(name).lock(n < 2 ? { signal: abort.signal } : {})),
    )
    abort.abort(new Error('gone'))
    const closed = client.close()
    const held = (await outcomes).filter(({ status }) => status === 'fulfilled')
    assert.deepEqual(held, [])
    await closed
    assert.equal(await fixture.server.admin.exists(...names(4)), 0)
  })

  it('calls for the same lock reach Redis in the order in which they were made', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('order:1')
    await (await lock.lock()).unlock() // Redis knows the scripts from here on
    const [first, second] = await Promise.all([lock.tryLock(), lock.tryLock()])
    assert(first && !second)
    const others = take(client, ['order:2', 'order:3'])
    const released = first.unlock()
    const third = await lock.tryLock() // joins the batch of the others unless it respects the release
    assert(third)
    await Promise.all([released, letGo(await others), third.unlock()])
  })
})

/** Renewals of every kind of lock and of permits: on a full Redis, and in one batch with keys that were overwritten. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold } from '../../src/index.js'
import { permitLeases } from '../../src/wire/keys.js'
import { recordMonitor } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const LEASE_MS = 2_000
const LONGER_MS = 3_000

/** Something that is held, with the key whose loss ends the hold. */
interface Held {
  readonly title: string
  take(client: Client, name: string): Promise<Hold>
  key(name: string): string
}

const HELD: readonly Held[] = [
  ...kinds.map(
    (kind): Held => ({
      title: kind.name,
      take: (client, name) => kind.lock(client, name).lock() as Promise<Hold>,
      key: (name) => kind.keys(name)[0] as string,
    }),
  ),
  {
    title: 'permit',
    async take(client, name) {
      const semaphore = client.getPermitExpirableSemaphore(name)
      await semaphore.trySetPermits(1)
      return await semaphore.acquire()
    },
    key: permitLeases,
  },
]

function isLive(hold: Hold): boolean {
  return !hold.signal.aborted && hold.remainingMs() > 0
}

describe('renewals', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^redisson_lock_token:|^holdfast_idempotency:|^permit:/ })

  it('OOM does not stop the renewal and release of any kind of hold', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const warnings: string[] = []
    client.on('warning', (warning) => warnings.push(warning.message))
    const holds = await Promise.all(HELD.map(({ title, take }) => take(client, `${title}:1`)))
    const nested = await Promise.all(
      kinds.flatMap((kind, n) =>
        kind.isReentrant && !kind.isJoint ? [kind.parts(client, `${kind.name}:1`)[0]?.lock({ within: holds[n] })] : [],
      ),
    )
    try {
      await fixture.server.admin.config('SET', 'maxmemory', '1')
      await sleep(LONGER_MS)
      for (const [n, hold] of holds.entries()) assert(isLive(hold), `${HELD[n]?.title} is lost`)
      await Promise.all(nested.map((hold) => hold?.unlock()))
      await Promise.all(holds.map((hold) => hold.unlock()))
      for (const { title, key } of HELD) assert.equal(await fixture.server.admin.exists(key(`${title}:1`)), 0, title)
      assert.deepEqual(warnings, [])
    } finally {
      await fixture.server.admin.config('SET', 'maxmemory', '0')
    }
  })

  it('OOM: a read lock acquired inside a write lock outlives the write and is renewed', async () => {
    const [client, other] = [await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS }), await fixture.connect()]
    const lock = client.getReadWriteLock('a')
    const write = await lock.writeLock().lock()
    const read = await lock.readLock().lock({ within: write })
    try {
      await fixture.server.admin.config('SET', 'maxmemory', '1')
      await write.unlock()
      await sleep(LONGER_MS)
      read.assertHeld()
      assert.equal(await read.isHeld(), true)
    } finally {
      await fixture.server.admin.config('SET', 'maxmemory', '0')
    }
    assert.equal(await other.getReadWriteLock('a').writeLock().tryLock(), null)
    await read.unlock()
  })

  it('a key overwritten by another program ends its own hold and no other of the same batch, for every kind of hold', async () => {
    await Promise.all(HELD.map(spoilTwo))
  })

  /** Takes six holds of a kind and overwrites the keys of two: with another type, and with text instead of numbers. */
  async function spoilTwo({ title, take, key }: Held): Promise<void> {
    const { admin } = fixture.server
    const client = await fixture.connect({ lockWatchdogTimeoutMs: LEASE_MS })
    const names = Array.from({ length: 6 }, (_, n) => `${title}:${n}`)
    const [typed, garbled, ...others] = await Promise.all(names.map((name) => take(client, name)))
    const [first, second] = [key(names[0] as string), key(names[1] as string)]
    await admin.multi().del(first).rpush(first, "somebody's", 'data').exec()
    if ((await admin.type(second)) === 'hash') {
      for (const field of await admin.hkeys(second)) await admin.hset(second, field, 'no number')
    }
    await waitUntil(() => typed?.signal.aborted, { message: `the spoiled ${title} is lost` })
    await sleep(LONGER_MS)
    for (const hold of others) {
      assert(isLive(hold), `another ${title} is lost, too`)
      await hold.unlock()
    }
    await garbled?.unlock().catch(() => {})
    await admin.del(first, second)
  }

  for (const kind of kinds.filter(({ isAdoptable, isReentrant }) => isAdoptable && isReentrant)) {
    it(`a late copy of the adoption of a ${kind.name} does not shorten a lease requested since`, async () => {
      const [from] = kind.parts(await fixture.connect(), 'a')
      const [to] = kind.parts(await fixture.connect(), 'a')
      assert(from && to)
      const { admin } = fixture.server
      const holder = (await from.lock({ leaseTimeMs: 60_000 })).handOver()
      const record = await recordMonitor(fixture.server)
      fixture.onEnd(() => record.stop())
      const adopted = await to.adopt(holder, { leaseTimeMs: 1_500 })
      const inner = await to.lock({ within: adopted, leaseTimeMs: 60_000 })
      const [evalsha = '', ...words] = (await record.stop()).find(({ args }) => args.includes('1500'))?.args ?? []
      await admin.call(evalsha, words)
      assert((await admin.pttl('a')) > 50_000)
      await inner.unlock()
      await adopted.unlock()
    })
  }
})

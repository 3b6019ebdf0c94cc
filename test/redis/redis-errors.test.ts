import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, connect, getMultiLock, WrongTypeError } from '../../src/index.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'
import { sleep, waitUntil } from '../support/wait-until.js'

for (const driver of drivers) {
  describe(`an error of Redis, through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    /** A client that logs in as a user with these rights. */
    async function connectAs(rights: string[]): Promise<Client> {
      await fixture.server.admin.acl(
        'SETUSER',
        'app',
        'reset',
        'resetchannels',
        'on',
        '>hunter2',
        '+hello',
        '+info',
        '+client',
        ...rights,
      )
      return await fixture.connect({}, fixture.server.url.replace('redis://', 'redis://app:hunter2@'))
    }

    it("WRONGTYPE is an error that names the lock and what is there, and the user's data is not changed", async () => {
      const client = await fixture.connect()
      await fixture.server.admin.set('a', 'my data')
      const lock = client.getLock('a')
      for (const call of [
        () => lock.lock(),
        () => lock.tryLock({ waitTimeMs: 100 }),
        () => lock.forceUnlock(),
        () => lock.getHolders(),
        () => client.adopt('a', `${client.id}:1`),
      ]) {
        await assert.rejects(call, (error) => {
          assert(error instanceof WrongTypeError)
          assert.deepEqual([error.code, error.lockName, error.found], ['LOCK_WRONG_TYPE', 'a', 'string'])
          assert.match(error.message, /^The name "a" is in use: Redis has a string there.*WRONGTYPE.*getStringLock\(\)/)
          return true
        })
      }
      assert.equal(await fixture.server.admin.get('a'), 'my data')
      await fixture.server.admin.del('a')
    })

    it('WRONGTYPE at one of several locks names that one, and leaves none of the others taken', async () => {
      const client = await fixture.connect()
      await fixture.server.admin.set('b', 'my data')
      const locks = getMultiLock(client.getLock('a'), client.getLock('b'), client.getLock('c'))
      for (const call of [() => locks.lock(), () => locks.tryLock(), () => locks.tryLock({ waitTimeMs: 100 })]) {
        await assert.rejects(call, { code: 'LOCK_WRONG_TYPE', lockName: 'b', found: 'string' })
      }
      assert.deepEqual(await fixture.server.admin.keys('*'), ['b'])
      await fixture.server.admin.del('b')
    })

    it('WRONGTYPE at a latch names it, also to those who wait', async () => {
      const client = await fixture.connect()
      await fixture.server.admin.lpush('a', 'my data')
      const latch = client.getCountDownLatch('a')
      for (const call of [
        () => latch.countDown(),
        () => latch.getCount(),
        () => latch.await(),
        () => latch.await({ waitTimeMs: 0 }),
        () => latch.delete(),
      ]) {
        await assert.rejects(call, { code: 'LOCK_WRONG_TYPE', lockName: 'a', found: 'list' })
      }
      await fixture.server.admin.del('a')
    })

    it('WRONGTYPE at a release says that the lock was overwritten', async () => {
      const client = await fixture.connect()
      const hold = await client.getLock('a').lock()
      await fixture.server.admin.set('a', 'overwritten')
      await assert.rejects(hold.unlock(), { code: 'LOCK_WRONG_TYPE', lockName: 'a', found: 'string' })
      assert.equal(await fixture.server.admin.get('a'), 'overwritten')
      await fixture.server.admin.del('a')
    })

    it('WRONGTYPE at the key of a held lock ends that hold, and no other of the same renewal', async () => {
      const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
      const [first, second, third] = [
        await client.getLock('a').lock(),
        await client.getLock('b').lock(),
        await client.getLock('c').lock(),
      ]
      await fixture.server.admin.set('b', 'overwritten')
      await waitUntil(() => second.signal.aborted)
      await renewed([first, third])
      await assert.rejects(second.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      await Promise.all([first.unlock(), third.unlock()])
      await fixture.server.admin.del('b')
    })

    it('NOPERM for the key or for scripts is passed on at once, and nothing is acquired', async () => {
      const noKey = await connectAs(['+@all', '~other:*', '&*'])
      await assert.rejects(noKey.getLock('a').lock(), { message: /NOPERM|permission/i })
      const noScripts = await connectAs(['+@all', '-eval', '-evalsha', '~*', '&*'])
      await assert.rejects(noScripts.getLock('a').lock(), { message: /NOPERM|permission/i })
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })

    it('NOPERM for the expiry leaves no key without an expiry', async () => {
      const client = await connectAs(['+@all', '-pexpire', '~*', '&*'])
      await assert.rejects(client.getLock('a').lock(), { message: /NOPERM|permission|can't run/i })
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })

    it('without the right to publish the lock is still released, and a warning names the right', async () => {
      const client = await connectAs(['+@all', '~*', 'resetchannels'])
      const warnings: string[] = []
      client.on('warning', (warning) => warnings.push(warning.message))
      const lock = client.getLock('a')
      for (let round = 0; round < 3; round++) await lock.withLock(() => {})
      assert.equal(await lock.isLocked(), false)
      assert.equal(warnings.length, 1, 'once is enough')
      assert.match(warnings[0] ?? '', /&redisson_\*/)
    })

    it('without the right to subscribe a waiter polls, and a warning names the right', async () => {
      const owner = await fixture.connect()
      const client = await connectAs(['+@all', '~*', 'resetchannels'])
      const warnings: string[] = []
      client.on('warning', (warning) => warnings.push(warning.message))
      const hold = await owner.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await waitUntil(() => warnings.length === 1)
      assert.match(warnings[0] ?? '', /cannot be subscribed to/)
      await hold.unlock()
      const releasedAt = performance.now()
      const next = await waiting
      assert(performance.now() - releasedAt < 1_000)
      await next.unlock()
    })

    it('without the right to the turn queue a release wakes all, and a warning names the keys', async () => {
      const owner = await connectAs(['+@all', '~a', '~b', '&*'])
      const client = await connectAs(['+@all', '~a', '~b', '&*'])
      const warnings: unknown[] = []
      for (const each of [owner, client]) {
        each.on('warning', (warning) => warnings.push((warning as Error & { code?: string }).code))
      }
      const hold = await owner.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await waitUntil(() => warnings.length === 1)
      await hold.unlock()
      const next = await waiting
      await next.unlock()
      await (await owner.getNonReentrantLock('b').lock()).unlock()
      assert.deepEqual(warnings, ['TURN_QUEUE_REFUSED', 'TURN_QUEUE_REFUSED'])
    })

    it('a forbidden channel does not prevent other subscriptions after a reconnect', async () => {
      const owner = await fixture.connect()
      const client = await connectAs(['+@all', '~*', '&redisson_lock__channel:{ok}'])
      const holds = [await owner.getLock('forbidden').lock(), await owner.getLock('ok').lock()]
      const waiting = [client.getLock('forbidden').lock(), client.getLock('ok').lock()]
      const listening = async (): Promise<string | undefined> =>
        /^id=(\d+) .* sub=1 /m.exec(String(await fixture.server.admin.client('LIST')))?.[1]
      const before = await waitUntil(listening)
      await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await waitUntil(async () => ![undefined, before].includes(await listening()), { message: 'it subscribes again' })
      for (const hold of holds) await hold.unlock()
      const releasedAt = performance.now()
      for (const hold of await Promise.all(waiting)) await hold.unlock()
      assert(performance.now() - releasedAt < 1_000)
    })

    it('OOM is passed on by an acquire, while holds are renewed and released', async () => {
      const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
      const hold = await client.getLock('a').lock()
      const inner = await client.getLock('a').lock({ within: hold })
      try {
        await fixture.server.admin.config('SET', 'maxmemory', '1')
        await assert.rejects(client.getLock('b').lock(), { message: /OOM/ })
        assert.equal(await client.getLock('a').tryLock(), null)
        await renewed([hold])
        await inner.unlock()
        assert.equal(await hold.isHeld(), true)
        await hold.unlock()
        assert.deepEqual(await fixture.server.admin.keys('*'), [])
      } finally {
        await fixture.server.admin.config('SET', 'maxmemory', '0')
      }
    })

    it('OOM allows permits to be renewed and released, and latches to be counted down', async () => {
      const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
      const expirable = client.getPermitExpirableSemaphore('a')
      await expirable.setPermits(2)
      const semaphore = client.getSemaphore('b')
      await semaphore.trySetPermits(2)
      const latch = client.getCountDownLatch('c')
      await latch.trySetCount(2)
      const permit = await expirable.acquire()
      await semaphore.acquire()
      try {
        await fixture.server.admin.config('SET', 'maxmemory', '1')
        await assert.rejects(expirable.acquire(), { message: /OOM/ })
        await assert.rejects(semaphore.acquire(), { message: /OOM/ })
        await renewed([permit])
        assert.equal(await permit.isHeld(), true)
        await permit.unlock()
        await semaphore.release()
        await latch.countDown()
        await latch.countDown()
        await latch.countDown() // it is open
        assert.equal(await client.getSemaphore('d').releaseIfExists(), false)
      } finally {
        await fixture.server.admin.config('SET', 'maxmemory', '0')
      }
      assert.equal(await expirable.availablePermits(), 2)
      assert.equal(await semaphore.availablePermits(), 2)
      assert.equal(await latch.getCount(), 0)
      for (const counted of [expirable, semaphore]) await counted.delete()
    })

    it('OOM allows a permit whose caller has gone to be released', async () => {
      const { client, proxy } = await fixture.connectThroughProxy()
      const semaphore = client.getSemaphore('a')
      await semaphore.trySetPermits(1)
      await semaphore.withPermit(() => {}) // Redis knows the scripts from here on
      const abort = new AbortController()
      proxy.holdReplies()
      const taking = semaphore.acquire({ signal: abort.signal })
      await waitUntil(async () => (await fixture.server.admin.get('a')) === '0')
      try {
        await fixture.server.admin.config('SET', 'maxmemory', '1')
        abort.abort(new Error('enough'))
        await assert.rejects(taking, /enough/)
        proxy.pass()
        await waitUntil(async () => (await fixture.server.admin.get('a')) === '1')
      } finally {
        await fixture.server.admin.config('SET', 'maxmemory', '0')
      }
      await semaphore.delete()
    })

    it('READONLY is waited out: a demoted server grants nothing, and the wait continues when it is master again', async () => {
      const client = await fixture.connect()
      await fixture.server.admin.config('SET', 'replica-read-only', 'yes')
      await fixture.server.admin.replicaof('127.0.0.1', 1)
      await assert.rejects(client.getLock('a').tryLock(), { message: /READONLY/ })
      const waiting = client.getLock('a').lock()
      await sleep(300)
      await fixture.server.admin.replicaof('NO', 'ONE')
      await (await waiting).unlock()
    })

    it('BUSY is waited out, and renewals survive it', async () => {
      const client = await fixture.connect({ lockWatchdogTimeoutMs: 3_000 })
      const hold = await client.getLock('a').lock()
      await fixture.server.admin.config('SET', 'lua-time-limit', '50')
      const endless = fixture.server.admin.duplicate()
      endless.eval('while true do end', 0).catch(() => {})
      await sleep(1_200) // a renewal is due, and refused
      const waiting = client.getLock('b').lock()
      await fixture.server.admin.script('KILL')
      endless.disconnect()
      await (await waiting).unlock()
      await renewed([hold], 1)
      await hold.unlock()
    })
  })
}

describe('a server that refuses the client', () => {
  const fixture = setUpFixture()

  it('WRONGPASS and NOAUTH end connect at once, with no password in the error', async () => {
    await fixture.server.admin.config('SET', 'requirepass', 'hunter2')
    fixture.onEnd(() => fixture.server.admin.config('SET', 'requirepass', ''))
    for (const [url, expected] of [
      [fixture.server.url.replace('redis://', 'redis://:wrong-one@'), /WRONGPASS/],
      [fixture.server.url, /NOAUTH/],
    ] as const) {
      await assert.rejects(connect(url), (error: Error) => {
        assert.match(error.message, expected)
        assert(!JSON.stringify([error.message, error.stack, { ...error }]).includes('wrong-one'))
        return true
      })
    }
  })
})

describe('a server that is loading its data', () => {
  const fixture = setUpFixture(undefined, ['--appendonly', 'yes'])

  it('LOADING is waited out, and the lock is still held afterwards', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 10_000 })
    const hold = await client.getLock('a').lock()
    for (let n = 0; n < 200; n++) await fixture.server.admin.set(`ballast:${n}`, 'x')
    const { admin } = fixture.server
    await fixture.server.restart(['--appendonly', 'yes', '--key-load-delay', '5000'])
    const waiting = client.getLock('b').lock()
    await (await waiting).unlock()
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    await admin.flushall()
  })
})

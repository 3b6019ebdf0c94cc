import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { type GlideLike, valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, ConfigError, connect } from '../../src/index.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { uncontended } from '../support/uncontended.js'
import { GLIDE_TOPOLOGIES, setUpGlide } from '../support/valkey-glide.js'
import { sleep, waitUntil } from '../support/wait-until.js'

for (const topology of GLIDE_TOPOLOGIES) {
  describe(`valkey-glide with ${topology.name}`, () => {
    const { isCluster, clients, servers, open, client, channels } = setUpGlide(topology)

    it('locks are taken, re-entered and waited for through valkey-glide', async () => {
      const [first, second] = [await client(), await client()]
      const hold = await first.getLock('lock:a').lock()
      assert.equal(await second.getLock('lock:a').tryLock(), null)
      await first.getLock('lock:a').withLock({ within: hold }, () => assert.equal(hold.count, 2))
      const waiting = second.getLock('lock:a').lock({ waitTimeMs: 30_000 })
      await waitUntil(async () => (await channels()).length >= (isCluster ? 2 : 1), { timeoutMs: 10_000 })
      // Glide has confirmed by now, or will at once. Without a message the waiter would poll after 5 s.
      await sleep(200)
      const startedAt = performance.now()
      await hold.unlock()
      const next = await waiting
      assert(performance.now() - startedAt < 3_000, 'it was woken, and did not poll')
      await next.unlock()
    })

    it('without a subscriber, waiters poll, and one warning is emitted', async () => {
      const polling = await connect({ client: await open(), checkLockSyncedSlaves: false })
      clients.push(polling)
      const warnings: Error[] = []
      polling.on('warning', (warning) => warnings.push(warning))
      const holder = await client()
      const holds = [await holder.getLock('a').lock(), await holder.getLock('b').lock()] as const
      const waits = [polling.getLock('a').lock(), polling.getLock('b').lock()]
      await waitUntil(() => warnings.length > 0)
      for (const hold of holds) await hold.unlock()
      for (const wait of waits) await (await wait).unlock()
      assert.equal(warnings.length, 1)
      assert.match(String(warnings[0]), /subscriber/)
    })

    it('fair locks are granted in the order of the requests', async () => {
      const [first, second, third] = [await client(), await client(), await client()]
      const hold = await first.getFairLock('lock:fair').lock()
      const order: number[] = []
      const wait = async (from: Client, place: number): Promise<void> => {
        const next = await from.getFairLock('lock:fair').lock()
        order.push(place)
        await next.unlock()
      }
      const { admin } = await servers().nodeOf('redisson_lock_queue:{lock:fair}')
      const queued = async (count: number) =>
        await waitUntil(async () => (await admin.llen('redisson_lock_queue:{lock:fair}')) === count)
      const waits = [wait(second, 1)]
      await queued(1)
      waits.push(wait(third, 2))
      await queued(2)
      await hold.unlock()
      await Promise.all(waits)
      assert.deepEqual(order, [1, 2])
    })

    it('read-write locks, permits and latches work through valkey-glide', async () => {
      const [first, second] = [await client(), await client()]
      const [mine, theirs] = [first.getReadWriteLock('lock:rw'), second.getReadWriteLock('lock:rw')]
      const readers = [await mine.readLock().lock(), await theirs.readLock().lock()]
      const writing = theirs.writeLock().lock()
      for (const reader of readers) await reader.unlock()
      await (await writing).unlock()

      const semaphore = first.getPermitExpirableSemaphore('semaphore:a')
      await semaphore.setPermits(1)
      const permit = await semaphore.acquire()
      const acquiring = second.getPermitExpirableSemaphore('semaphore:a').acquire({ waitTimeMs: 30_000 })
      await permit.unlock()
      await (await acquiring).unlock()
      await semaphore.delete()

      const latch = first.getCountDownLatch('latch:a')
      await latch.trySetCount(1)
      const waiting = second.getCountDownLatch('latch:a').await({ waitTimeMs: 30_000 })
      await latch.countDown()
      assert.equal(await waiting, true)
    })

    it('after an outage of Redis, holds are lost and waiters are served', async () => {
      const [first, second] = [await client(), await client()]
      const node = await servers().nodeOf('lock:down')
      const hold = await first.getLock('lock:down').lock()
      const waiting = second.getLock('lock:down').lock({ waitTimeMs: 60_000 })
      await node.kill()
      await node.restart()
      // In a cluster a replica may have taken over meanwhile, with the hold.
      if (isCluster) await hold.unlock().catch(() => {})
      else await waitUntil(() => hold.signal.aborted, { timeoutMs: 8_000, message: 'the loss is noticed at once' })
      await (await waiting).unlock()
    })

    if (isCluster) {
      it('a grant waits for the acknowledgement of a replica', async () => {
        const one = await client({ checkLockSyncedSlaves: true })
        for (const name of ['a', 'b', 'c', 'd']) await (await one.getLock(name).lock()).unlock()
      })

      it('valkey-glide sends one command to lock and one to unlock, unless replicas must acknowledge', async () => {
        const sentWith = async (checkLockSyncedSlaves: boolean): Promise<string[]> => {
          const sent: string[] = []
          const subscriber = async (): Promise<GlideLike> => {
            const glide: GlideLike = await open()
            const send = glide.customCommand.bind(glide)
            glide.customCommand = (args, options) => {
              if (typeof options?.route === 'object') sent.push(args.slice(0, args[0] === 'CLIENT' ? 2 : 1).join(' '))
              return send(args, options)
            }
            return glide
          }
          const port = valkeyGlide(await open(), { subscriber })
          const one = await connect({ client: port, checkLockSyncedSlaves })
          clients.push(one)
          await (await one.getLock('a').lock()).unlock() // from here on Redis knows the scripts
          sent.length = 0
          await (await one.getLock('a').lock()).unlock()
          return sent
        }
        assert.deepEqual(await sentWith(false), ['EVALSHA', 'EVALSHA'])
        const acknowledged = await sentWith(true)
        assert(acknowledged.includes('WAIT') && acknowledged.includes('CLIENT INFO'), `sent ${acknowledged}`)
      })
    }

    if (!isCluster) {
      it('a database that the application selects does not concern Holdfast, which has a client of its own', async () => {
        const [glide, other] = [await open(), await client()]
        const one = await connect({ client: valkeyGlide(glide, { subscriber: open }) })
        clients.push(one)
        const hold = await other.getLock('lock:selected').lock()
        await glide.customCommand(['SELECT', '1'])
        assert.equal(await one.getLock('lock:selected').tryLock(), null)
        await hold.unlock()
      })

      it('without a subscriber, nothing is granted while the application has selected another database', async () => {
        const [glide, other] = [await open(), await client()]
        const one = await connect({ client: glide })
        clients.push(one)
        await one.getLock('lock:selected').withLock(() => {})
        const hold = await other.getLock('lock:selected').lock()
        const selecting = glide.customCommand(['SELECT', '1']) // executed before what follows, but not answered yet
        await assert.rejects(one.getLock('lock:selected').tryLock(), {
          code: 'LOCK_OUTCOME_UNKNOWN',
          message: /database 1 is selected .* uses database 0: select that one again/,
        })
        await selecting
        await glide.customCommand(['SELECT', '0'])
        assert.equal(await one.getLock('lock:selected').tryLock(), null)
        await hold.unlock()
        await one.getLock('lock:selected').withLock(() => {})
      })

      it('valkey-glide sends the same bytes for a lock nobody else wants, whether it can be asked or not', async () => {
        const through = async (inspection: boolean) => {
          await using proxy = await startProxy(servers().nodes[0]?.port ?? 0)
          const reopen = () => open({ addresses: [{ host: '127.0.0.1', port: proxy.port }] })
          const port = valkeyGlide(await reopen(), { subscriber: reopen })
          const one = await connect({ client: port, checkLockSyncedSlaves: false, inspection })
          clients.push(one)
          const found = await uncontended(one, proxy)
          await one.close()
          return found
        }
        assert.deepEqual(await through(true), await through(false))
      })
    }

    it('valkey-glide rejects a client or an option that cannot work', async () => {
      const glide = await open()
      assert.throws(() => valkeyGlide(glide, { subscriber: 'yes' as never }), ConfigError)
      assert.throws(() => valkeyGlide({} as never), ConfigError)
    })

    it('the process exits by itself after both clients are closed', async () => {
      const [index, adapter] = ['index', 'adapters/valkey-glide/port'].map((name) =>
        JSON.stringify(new URL(`../../src/${name}.js`, import.meta.url).href),
      )
      const program = `
        import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
        import { connect } from ${index}
        import { valkeyGlide } from ${adapter}
        Logger.setLoggerConfig('off')
        const addresses = ${JSON.stringify(servers().nodes.map(({ host, port }) => ({ host, port })))}
        const open = () => ${isCluster ? 'GlideClusterClient' : 'GlideClient'}.createClient({ addresses })
        const glide = await open()
        const client = await connect({ client: valkeyGlide(glide, { subscriber: open }) })
        const hold = await client.getLock('a').lock()
        console.log(await client.getLock('a').tryLock({ waitTimeMs: 500 }))
        await hold.unlock()
        await client.close()
        glide.close()
      `
      const { stdout, stderr } = await promisify(execFile)(
        process.execPath,
        ['--input-type=module', '--eval', program],
        { timeout: 30_000 },
      )
      assert.equal(stdout, 'null\n')
      assert.equal(stderr, '')
    })
  })
}

/** The majority of a red lock: slow servers, late grants, split votes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { getRedLock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { startRedis } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Each test shows that a known defect of Redisson’s RedissonRedLock and RedissonMultiLock does not occur here. */
describe('the majority of a red lock', () => {
  const fixture = setUpFixture()

  async function exists(name: string): Promise<boolean> {
    return (await fixture.server.admin.exists(name)) === 1
  }

  it('the time spent acquiring reduces the lease of a red lock, and a lease shorter than that is refused', async () => {
    const { client: slow, proxy } = await fixture.connectThroughProxy()
    const red = getRedLock(...['a', 'b', 'c'].map((name) => slow.getLock(name)))
    proxy.delay(200)
    const hold = await red.lock({ leaseTimeMs: 5_000 })
    assert(hold.remainingMs() <= 4_800, `${hold.remainingMs()} ms are left`)
    await hold.unlock()
    const tooShort = red.tryLock({ leaseTimeMs: 100 })
    await assert.rejects(tooShort, { code: 'LOCK_QUORUM' })
    proxy.pass()
    await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
  })

  it('a grant that arrives after the majority joins the red lock and is released with it', async () => {
    const [client, { client: slow, proxy }] = [await fixture.connect(), await fixture.connectThroughProxy()]
    const red = getRedLock(client.getLock('a'), client.getLock('b'), slow.getLock('c'))
    await red.withLock(() => {})
    await slow.getLock('c').withLock(() => {}) // Redis knows the scripts of both clients from here on
    await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
    proxy.delay(1_500)
    const startedAt = performance.now()
    const hold = await red.lock()
    assert(performance.now() - startedAt < 1_400, 'the majority was enough')
    await waitUntil(() => exists('c'))
    await sleep(2_000) // the reply takes 1500 ms
    proxy.pass()
    await hold.unlock()
    assert.equal(await exists('c'), false)
  })

  it('red locks that split the votes do not keep splitting them', async () => {
    const servers = [await startRedis(), await startRedis()]
    for (const server of servers) fixture.onEnd(() => server.stop())
    const urls = [fixture.server.url, ...servers.map(({ url }) => url)]
    let [inside, sections] = [0, 0]
    const sell = async (): Promise<void> => {
      const clients = await Promise.all(urls.map((url) => fixture.connect({}, url)))
      const red = getRedLock(...clients.map((client) => client.getLock('a')))
      for (let round = 0; round < 5; round++) {
        await red.withLock(async () => {
          assert.equal(++inside, 1)
          await sleep(5)
          inside--
          sections++
        })
      }
    }
    await Promise.all([sell(), sell(), sell()])
    assert.equal(sections, 15)
  })
})

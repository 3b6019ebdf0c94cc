/** What every kind of lock promises when the process that holds it is stopped or blocked. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { block } from '../support/block.js'
import { drivers, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { type Kind, KindFixture, kinds } from '../support/kinds.js'
import { spawnChild } from '../support/processes/child.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const VICTIM = new URL('../support/processes/victim-process.js', import.meta.url)

describe('a fault', { concurrency: 6 }, () => {
  watchWholeProcess()
  for (const kind of kinds) {
    describe(`a process that holds a ${kind.name}`, { concurrency: 1 }, () => faultsOfProcesses(kind))
  }
})

/** The processes have a driver of their own. */
function faultsOfProcesses(kind: Kind): void {
  const fixture = setUpFixture(undefined, [], { keysThatStay: kind.keysThatStay, isBesideOthers: true })
  const kindFixture = new KindFixture(kind, fixture)

  it('a process stopped past its lease knows in its first turn that it lost the lock, and renews nothing', async () =>
    await isStopped(0))

  if (!kind.isShared) {
    it('a process stopped past its lease during hand-offs knows in its first turn that it lost the lock', async () =>
      await isStopped(5))
  }

  /** @param handOffs  how often the lock was handed off within the process before */
  async function isStopped(handOffs: number): Promise<void> {
    const child = spawnChild(VICTIM, [fixture.server.url, kind.name, drivers[0]?.name ?? '', String(handOffs)])
    const { holder } = await child.nextMessage<{ at: string; holder: string }>(({ at }) => at === 'held')
    child.freeze()
    const client = await fixture.connect()
    const next = await kindFixture.rival(client).lock({ waitTimeMs: 4_000 })
    assert.notEqual(next.holder, holder)
    await sleep(500)
    child.thaw()
    const verdict = await child.nextMessage<{ at: string; error: string; aborted: boolean }>(({ at }) => at === 'woke')
    assert.deepEqual([verdict.error, verdict.aborted], ['LOCK_LEASE_LOST', true])
    await child.nextMessage(({ at }) => at === 'lost')
    await sleep(700)
    assert.equal(await next.isHeld(), true)
    assert.equal(await kindFixture.lock(client).tryLock(), null, 'nobody freed it')
    await next.unlock()
    await child.stop()
    assert.deepEqual(await kindFixture.keys(), [], 'nothing was revived')
  }
}

describe('a holder process', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^redisson_lock_token:/ })

  it('a holder whose event loop was blocked past its lease knows on the first line after the block', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const holds = await Promise.all(kinds.map((kind) => kind.lock(client, kind.name).lock()))
    block(2_000)
    for (const hold of holds) {
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' }, hold.lockName)
      assert.equal(hold.signal.aborted, true)
      assert.equal(hold.remainingMs(), 0)
    }
    let keys: string[] = []
    const areGone = async (): Promise<boolean> => {
      keys = (await fixture.server.admin.keys('*')).filter((key) => !key.startsWith('redisson_lock_token:'))
      return keys.length === 0
    }
    const timeoutMs = 1_000 + Math.max(...kinds.map(({ outlivesMs }) => outlivesMs))
    await waitUntil(areGone, { timeoutMs, message: () => `nothing revives ${keys.join()}` })
  })
})

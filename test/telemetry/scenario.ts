import assert from 'node:assert/strict'
import type { Lock } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

/** What happens to locks, each step once, on a fake clock: what exporters have to report is known exactly. */
export class Scenario {
  readonly fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })

  async direct(): Promise<void> {
    const hold = await this.fixture.lock.lock({ label: 'refund' })
    await this.fixture.clock.advance(40)
    await hold.unlock()
  }

  async waited(): Promise<void> {
    const { clock, other, lock } = this.fixture
    const held = await other.getLock('a').lock()
    const waiting = lock.lock()
    await clock.advance(300)
    await held.unlock()
    await (await clock.until(waiting)).unlock()
  }

  async handedOff(): Promise<void> {
    const [first, [waiting]] = await this.fixture.heldAndWaitedFor(1)
    await this.fixture.clock.advance(10)
    await first.unlock()
    await (await waiting)?.unlock()
  }

  async reentered(): Promise<void> {
    const { lock } = this.fixture
    await lock.withLock(async () => await lock.withLock(async () => {}))
  }

  async timedOut(): Promise<void> {
    const { clock, other, lock } = this.fixture
    const held = await other.getLock('a').lock()
    await assert.rejects(clock.until(lock.lock({ waitTimeMs: 50 })), { code: 'LOCK_WAIT_TIMEOUT' })
    await held.unlock()
  }

  async aborted(): Promise<void> {
    const { other, lock } = this.fixture
    const held = await other.getLock('a').lock()
    const abort = new AbortController()
    const waiting = lock.lock({ signal: abort.signal })
    await turn()
    abort.abort(new Error('enough'))
    await assert.rejects(waiting)
    await held.unlock()
  }

  async failed(): Promise<void> {
    this.fixture.port.once('lock/acquire', { errorReply: 'OOM command not allowed' })
    await assert.rejects(this.fixture.lock.tryLock(), /OOM/)
  }

  async renewed(): Promise<void> {
    const hold = await this.fixture.lock.lock()
    await this.fixture.clock.advance(LEASE_MS / 3)
    await hold.unlock()
  }

  async transferred(): Promise<void> {
    const { lock, other } = this.fixture
    await (await other.getLock('a').adopt((await lock.lock()).handOver())).unlock()
  }

  /** Loses a hold. `closed` closes the client: it is the last step. */
  readonly lose: Record<string, (lock: Lock) => Promise<void>> = {
    expired: async (lock) => {
      await lock.lock({ leaseTimeMs: 100 })
      await this.fixture.clock.advance(101)
    },
    maxHold: async (lock) => {
      await lock.lock({ maxHoldMs: 100 })
      await this.fixture.clock.advance(LEASE_MS)
    },
    forced: async (lock) => {
      await lock.lock()
      await lock.forceUnlock()
    },
    gone: async (lock) => {
      const hold = await lock.lock()
      await this.fixture.other.getLock('a').forceUnlock()
      await hold.isHeld()
    },
    closed: async (lock) => {
      await lock.lock()
      await this.fixture.clock.until(this.fixture.client.close())
    },
  }
}

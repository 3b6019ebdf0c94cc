import assert from 'node:assert/strict'
import type { Lock } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

/** What happens to locks, each step once, on a fake clock: what exporters have to report is known exactly. */
export class Scene {
  readonly bench = new ClientBench({ lockWatchdogTimeoutMs: LEASE_MS })

  async direct(): Promise<void> {
    const hold = await this.bench.lock.lock({ label: 'refund' })
    await this.bench.clock.advance(40)
    await hold.unlock()
  }

  async waited(): Promise<void> {
    const { clock, other, lock } = this.bench
    const held = await other.getLock('a').lock()
    const waiting = lock.lock()
    await clock.advance(300)
    await held.unlock()
    await (await clock.until(waiting)).unlock()
  }

  async handedOff(): Promise<void> {
    const [first, [waiting]] = await this.bench.heldAndWaitedFor(1)
    await this.bench.clock.advance(10)
    await first.unlock()
    await (await waiting)?.unlock()
  }

  async reentered(): Promise<void> {
    const { lock } = this.bench
    await lock.withLock(async () => await lock.withLock(async () => {}))
  }

  async timedOut(): Promise<void> {
    const { clock, other, lock } = this.bench
    const held = await other.getLock('a').lock()
    await assert.rejects(clock.until(lock.lock({ waitTimeMs: 50 })), { code: 'LOCK_WAIT_TIMEOUT' })
    await held.unlock()
  }

  async aborted(): Promise<void> {
    const { other, lock } = this.bench
    const held = await other.getLock('a').lock()
    const abort = new AbortController()
    const waiting = lock.lock({ signal: abort.signal })
    await turn()
    abort.abort(new Error('enough'))
    await assert.rejects(waiting)
    await held.unlock()
  }

  async failed(): Promise<void> {
    this.bench.port.once('lock/acquire', { errorReply: 'OOM command not allowed' })
    await assert.rejects(this.bench.lock.tryLock(), /OOM/)
  }

  async renewed(): Promise<void> {
    const hold = await this.bench.lock.lock()
    await this.bench.clock.advance(LEASE_MS / 3)
    await hold.unlock()
  }

  async transferred(): Promise<void> {
    const { lock, other } = this.bench
    await (await other.getLock('a').adopt((await lock.lock()).handOver())).unlock()
  }

  /** Loses a hold. `closed` closes the client: it is the last step. */
  readonly lose: Record<string, (lock: Lock) => Promise<void>> = {
    expired: async (lock) => {
      await lock.lock({ leaseTimeMs: 100 })
      await this.bench.clock.advance(101)
    },
    maxHold: async (lock) => {
      await lock.lock({ maxHoldMs: 100 })
      await this.bench.clock.advance(LEASE_MS)
    },
    forced: async (lock) => {
      await lock.lock()
      await lock.forceUnlock()
    },
    gone: async (lock) => {
      const hold = await lock.lock()
      await this.bench.other.getLock('a').forceUnlock()
      await hold.isHeld()
    },
    closed: async (lock) => {
      await lock.lock()
      await this.bench.clock.until(this.bench.client.close())
    },
  }
}

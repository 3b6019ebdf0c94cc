/** A cluster client that has just been opened does not know which server owns a key. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import type { Acknowledgement } from '../../src/adapters/port.js'
import type { Client } from '../../src/client.js'
import { getMultiLock } from '../../src/index.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { SCRIPT_NAMES } from '../support/script-names.js'

const COMMAND_TIMEOUT_MS = 3_000
const LOCATED_AFTER_MS = 500

/** Knows where keys are only when a server has replied. */
class UnlocatedPort extends FakePort {
  readonly isReplicated = true
  /** The scripts that were sent. */
  readonly scripts: string[] = []
  /** How long a server takes to reply; undefined: it never does. */
  locatedAfterMs: number | undefined = LOCATED_AFTER_MS
  #isLocated = false

  serverOf(): string | undefined {
    return this.#isLocated ? 'server' : undefined
  }

  async acknowledge(): Promise<Acknowledgement> {
    return { replicas: 1, acknowledged: 1 }
  }

  override async send(command: readonly string[], key: string): Promise<unknown> {
    const name = SCRIPT_NAMES.get(command[1] ?? '') ?? command.join(' ')
    if (name === 'time/read') {
      await new Promise<void>((resolve) => {
        if (this.locatedAfterMs !== undefined) clock.after(this.locatedAfterMs, resolve)
      })
      this.#isLocated = true
    } else {
      this.scripts.push(name)
    }
    return await super.send(command, key)
  }
}

interface Options {
  readonly signal?: AbortSignal
  readonly waitTimeMs?: number
}

const takers: Record<string, (client: Client, options: Options) => Promise<unknown>> = {
  lock: (client, options) => client.getLock('a').tryLock(options),
  'multi-lock': (client, options) => getMultiLock(client.getLock('a'), client.getLock('b')).tryLock(options),
  semaphore: (client, options) => client.getSemaphore('a').tryAcquire(options),
}

let clock: FakeClock
let port: UnlocatedPort
let client: Client

beforeEach(() => {
  clock = new FakeClock()
  port = new UnlocatedPort(clock)
  client = fakeClient(clock, port, { commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

for (const [name, take] of Object.entries(takers)) {
  describe(`a ${name} whose server is not located yet`, () => {
    it(`a ${name} whose server is not located yet sends nothing if it is aborted first`, async () => {
      const abort = new AbortController()
      const taking = take(client, { signal: abort.signal })
      await turn()
      abort.abort()
      await assert.rejects(taking, { name: 'AbortError' })
      await clock.advance(2 * LOCATED_AFTER_MS)
      await clock.until(client.close())
      assert.deepEqual(port.scripts, [])
    })

    it(`a ${name} whose server is not located yet sends nothing if its wait time ends first`, async () => {
      const outcome = await clock.until(take(client, { waitTimeMs: LOCATED_AFTER_MS / 2 }))
      assert(outcome === null || outcome === false, 'it is not taken')
      await clock.until(client.close())
      assert.deepEqual(port.scripts, [])
    })

    it(`a ${name} whose server is not located yet sends nothing if the client closes first`, async () => {
      const taking = take(client, {})
      const refused = assert.rejects(taking, { code: 'LOCK_CLIENT_CLOSED' })
      await turn()
      await clock.until(client.close())
      await refused
      assert.deepEqual(port.scripts, [])
    })
  })
}

describe('locating the server of a lock', () => {
  it('locating the server of a lock comes before the lease begins', async () => {
    const hold = await clock.until(client.getLock('a').lock({ leaseTimeMs: 1_000 }))
    assert(hold.remainingMs() > 1_000 - LOCATED_AFTER_MS)
    await hold.unlock()
    await clock.until(client.close())
    assert.equal(port.scripts[0], 'lock/acquire')
  })

  it('locating the server of a lock is waited for by a single try, of one lock as of several', async () => {
    for (const lock of [getMultiLock(client.getLock('a'), client.getLock('b')), client.getLock('a')]) {
      const hold = await clock.until(lock.tryLock())
      assert(hold)
      await hold.unlock()
    }
    await clock.until(client.close())
  })

  it('locating the server of a lock takes no longer than the command timeout, then nothing was sent', async () => {
    port.locatedAfterMs = undefined
    const startedAt = clock.now()
    await assert.rejects(clock.until(client.getLock('a').tryLock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    assert(!port.scripts.includes('lock/acquire'))
    assert.equal(clock.now() - startedAt, COMMAND_TIMEOUT_MS)
    await clock.until(client.close())
    assert.deepEqual(port.redis.keys, [])
  })
})

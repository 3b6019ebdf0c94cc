/** Copies of commands that arrive later than their caller, its lease or its client last. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Client } from '../../src/client.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import type { Hold } from '../../src/index.js'
import { lockAcquire, SCRIPTS } from '../../src/lua/generated.js'
import { TOO_LATE } from '../../src/lua/variants.js'
import { ReplyError } from '../../src/testing/keyspace.js'
import { systemRandom } from '../../src/util/random.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { kinds } from '../support/kinds.js'
import { SCRIPT_NAMES } from '../support/script-names.js'

const COMMAND_TIMEOUT_MS = 3_000
const ACQUIRE = lockAcquire('a', 30_000, 'me:1')
/** After this no command runs that takes something: the clocks of client and server may differ by a second. */
const LATE_MS = COMMAND_TIMEOUT_MS + 1_001

/** A fixture whose first client's commands are kept, so that copies of them can be delivered at any time. */
class Copies extends ClientFixture {
  #sent: (readonly string[])[] = []

  constructor() {
    super({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
    const send = this.port.send.bind(this.port)
    this.port.send = async (command, key) => {
      this.#sent.push(command)
      return await send(command, key)
    }
  }

  /** What it sent during `action`. */
  async commandsDuring(action: () => Promise<unknown>): Promise<readonly (readonly string[])[]> {
    this.#sent = []
    await action()
    await turn()
    return this.#sent.filter(([verb]) => verb === 'EVALSHA' || verb === 'EVAL')
  }

  /** Copies of commands arrive. @returns the replies */
  deliver(commands: readonly (readonly string[])[]): readonly unknown[] {
    return commands.map((command) => {
      try {
        return this.redis.execute(command)
      } catch (error) {
        return error
      }
    })
  }

  /** Who holds what: everything in Redis but numbers that only rise, what clients say of themselves, and what is kept for copies. */
  get content(): Record<string, unknown> {
    const { keyspace } = this.redis
    keyspace.tick()
    const names = keyspace.names().filter((name) => !/^(holdfast_\w+|redisson_lock_token):/.test(name))
    return Object.fromEntries(names.map((name) => [name, structuredClone(keyspace.content(name))]))
  }
}

describe('every script', () => {
  /** How a copy that arrives late changes nothing for anybody else. */
  const RULES: readonly [why: string, scripts: RegExp][] = [
    [
      'it takes or records something, and does nothing after its deadline',
      /\/(acquire|adopt|mark)(-all|-queued|-in-order)?$|^job\/record$|^web-locks\/record$/,
    ],
    [
      'it names a holder or a waiter, which nobody else is',
      /\/(release|release-one|release-queued|reenter|renew|renew-capped|shorten|leave|set-count|extend)$|^permit\/release-in-order$/,
    ],
    ['it names a ticket', /^lock\/leave-turn-queue$/],
    [
      'it runs once, and belongs to a number',
      /^(semaphore|latch)\/(set-permits|add-permits|release(-in-order)?|drain-permits|cancel|set-count|count-down)$|^permit\/set-permits$/,
    ],
    [
      'it is only sent to run once, before a deadline',
      /^(latch|semaphore)\/delete$|^permit\/(update-lease|release-all)$/,
    ],
    ['it writes or deletes exactly what it names', /^forced\/(record|withdraw)$|^idempotency\/forget$/],
    ['it changes nothing', /\/(inspect|token|read)$|^web-locks\/list$/],
  ]

  it('every script has a rule for its late copies', () => {
    const without = SCRIPTS.filter(({ name }) => !RULES.some(([, scripts]) => scripts.test(name)))
    assert.deepEqual(
      without.map(({ name }) => name),
      [],
    )
  })

  it('every script has a deadline exactly if it takes or records something', () => {
    const [[, takes]] = RULES as [(typeof RULES)[number]]
    for (const { name, expires = false } of SCRIPTS) assert.equal(expires, takes.test(name), name)
  })
})

for (const kind of kinds) {
  describe(`commands of a ${kind.name}`, () => {
    /** All that a client does with it, and with the hold of another client. */
    async function useOf({ client, other, clock }: Copies): Promise<void> {
      const ours = kind.lock(client, 'a')
      const settled = async <T>(promise: Promise<T>): Promise<T> => await clock.until(promise)
      await settled(
        ours.withLock({ leaseTimeMs: 20_000 }, async (hold) => {
          await hold.extend(25_000)
          if (kind.isReentrant) await ours.withLock({ leaseTimeMs: 20_000 }, () => {})
        }),
      )
      const theirs = await settled(kind.rival(other, 'a').lock())
      assert.equal(await settled(ours.tryLock({ waitTimeMs: 30 })), null)
      for (const part of kind.parts(client, 'a')) await settled(part.forceUnlock())
      await theirs.unlock().catch(() => {})
      const forced = await settled(kind.rival(other, 'a').lock())
      for (const part of kind.rival === kind.lock
        ? kind.parts(client, 'a')
        : [client.getReadWriteLock('a').writeLock()])
        await settled(part.forceUnlock())
      await forced.unlock().catch(() => {})
      if (!kind.isAdoptable || kind.isJoint) return
      const [part] = kind.parts(client, 'a')
      const given = (await settled(kind.lock(other, 'a').lock())) as Hold
      await (await settled((part as NonNullable<typeof part>).adopt(await given.handOver()))).unlock()
    }

    it(`copies of commands of a ${kind.name} that arrive late take nothing, and end nothing of others`, async () => {
      const fixture = new Copies()
      const commands = await fixture.commandsDuring(() => useOf(fixture))
      await fixture.clock.advance(LATE_MS)
      const free = fixture.content
      fixture.deliver(commands)
      assert.deepEqual(fixture.content, free, 'nobody has it')

      const hold = await fixture.clock.until(kind.rival(fixture.other, 'a').lock({ leaseTimeMs: 50_000 }))
      const held = fixture.content
      fixture.deliver(commands)
      assert.deepEqual(fixture.content, held, 'the other client has it')
      hold.assertHeld()
      await hold.unlock()
      await fixture.close()
    })

    it(`commands that take a ${kind.name} and were sent twice take it for a second at most`, async () => {
      const fixture = new Copies()
      const { client, clock, port } = fixture
      for (const atLeastMs of kind.isShared || kind.isJoint ? [undefined] : [undefined, 1_000]) {
        const [first] = await fixture.commandsDuring(async () => {
          const running = kind.lock(client, 'a').withLock({ atLeastMs }, () => {
            port.reconnect() // the Redis client may have sent it twice
          })
          await clock.until(running)
        })
        await clock.advance(1_500)
        const free = fixture.content
        fixture.deliver([first as readonly string[]])
        assert.notDeepEqual(fixture.content, free, 'a copy that arrives in time is like the first')
        await clock.advance(1_000)
        assert.deepEqual(fixture.content, free)
        await clock.advance(10_000)
      }
      await fixture.close()
    })
  })
}

describe('commands of semaphores and latches', () => {
  const uses: Record<string, (client: Client) => Promise<unknown>> = {
    'latch.delete': (client) => client.getCountDownLatch('a').delete(),
    'semaphore.delete': (client) => client.getSemaphore('a').delete(),
    'permits.delete': (client) => client.getPermitExpirableSemaphore('a').delete(),
    'semaphore.tryAcquire': (client) => client.getSemaphore('a').tryAcquire(),
    'permits.tryAcquire': (client) => client.getPermitExpirableSemaphore('a').tryAcquire({ leaseTimeMs: 60_000 }),
  }
  const creations: Record<string, (client: Client) => Promise<unknown>> = {
    latch: (client) => client.getCountDownLatch('a').trySetCount(3),
    semaphore: (client) => client.getSemaphore('a').trySetPermits(3),
    permits: (client) => client.getPermitExpirableSemaphore('a').trySetPermits(3),
  }
  for (const [name, use] of Object.entries(uses)) {
    const create = creations[name.split('.')[0] as string] as NonNullable<(typeof creations)[string]>

    it(`${name}() changes nothing that was created since, when a copy of it arrives`, async () => {
      const fixture = new Copies()
      const { clock, other, port } = fixture
      await clock.until(create(other))
      const commands = await fixture.commandsDuring(async () => {
        const using = use(fixture.client)
        await turn()
        port.reconnect()
        await clock.until(using)
      })
      fixture.redis.delete('a')
      fixture.redis.delete('{a}:timeout')
      await clock.until(create(other))
      const created = fixture.content
      for (const afterMs of name.endsWith('delete') ? [0, LATE_MS] : [LATE_MS]) {
        await clock.advance(afterMs)
        fixture.deliver(commands)
        assert.deepEqual(fixture.content, created, `${afterMs} ms later`)
      }
    })
  }

  it('updateLeaseTime() sets a lease once', async () => {
    const fixture = new Copies()
    const { client, clock, port, otherPort } = fixture
    const other = new Client(otherPort, {}, { clock, random: systemRandom })
    await clock.until(creations['permits']?.(other) as Promise<unknown>)
    const permits = other.getPermitExpirableSemaphore('a')
    const permit = await clock.until(permits.acquire({ leaseTimeMs: 60_000 }))
    const [id] = permit.permitIds as readonly [string]
    const commands = await fixture.commandsDuring(async () => {
      const updating = client.getPermitExpirableSemaphore('a').updateLeaseTime(id, 5_000)
      await turn()
      port.reconnect()
      assert.equal(await clock.until(updating), true)
    })
    await clock.until(permits.updateLeaseTime(id, 600_000))
    for (const afterMs of [0, LATE_MS]) {
      await clock.advance(afterMs)
      fixture.deliver(commands)
      const leftMs = await clock.until(permits.getLeaseTime(id))
      assert(leftMs > 590_000, `${leftMs} ms`)
    }
  })
})

describe('a command that arrives too late', () => {
  it('a late command is sent again while its caller waits, with the time of Redis in the reply', async () => {
    const fixture = new Copies()
    const { clock, client, lock, port } = fixture
    client.getLock('a').context.scripts.learnTime('a', clock.now() - 10_000)
    const hold = await clock.until(lock.lock())
    fixture.assertSafe(hold)
    assert.equal(port.count('lock/acquire'), 2)
    await hold.unlock()
    await fixture.close()
  })

  it('a late command of a single try is sent again like that of others', async () => {
    const fixture = new Copies()
    const { clock, client, lock } = fixture
    client.getLock('a').context.scripts.learnTime('a', clock.now() - 10_000)
    const hold = await clock.until(lock.tryLock())
    assert(hold)
    await hold.unlock()
    await fixture.close()
  })

  /** A Redis of which only the replies are there. */
  function scriptsWith(reply: (command: readonly string[]) => unknown): { scripts: Scripts; sent: string[] } {
    const sent: string[] = []
    const send = async (command: readonly string[]): Promise<unknown> => {
      sent.push(SCRIPT_NAMES.get(command[1] ?? '') ?? String(command[0]))
      return await reply(command)
    }
    const port = { send, isErrorReply: (error: unknown) => error instanceof ReplyError } as unknown as RedisPort
    return { scripts: new Scripts(port, new FakeClock(), COMMAND_TIMEOUT_MS), sent }
  }

  it('a late command is given up after four times, as when the clock of Redis jumps with every reply', async () => {
    let jumps = 0
    const { scripts, sent } = scriptsWith(() => [TOO_LATE, ++jumps * 1_000_000])
    scripts.learnTime('a', 0)
    await assert.rejects(scripts.run(ACQUIRE), /too late/)
    assert.equal(sent.length, 4)
    assert.equal(scripts.isIdle, true)
  })

  it('a late command is sent again only within the time that its caller waits', async () => {
    const clock = new FakeClock()
    let sent = 0
    const send = async (): Promise<unknown> => {
      const time = ++sent * 1_000_000
      await new Promise<void>((resolve) => void clock.after(COMMAND_TIMEOUT_MS * 0.6, resolve))
      return [TOO_LATE, time]
    }
    const scripts = new Scripts({ send, isErrorReply: () => false } as unknown as RedisPort, clock, COMMAND_TIMEOUT_MS)
    scripts.learnTime('a', 0)
    await assert.rejects(clock.until(scripts.run(ACQUIRE)), /too late/)
    assert.equal(sent, 2)
  })

  it('a command that could be too late is not sent if the time of Redis cannot be learned', async () => {
    const { scripts, sent } = scriptsWith(() => Promise.reject(new Error('Connection is closed')))
    await assert.rejects(scripts.run(ACQUIRE), NoReplyError)
    assert.deepEqual(sent, ['time/read'])
    assert.equal(scripts.isIdle, true)
  })

  it('a command that could be too late is sent although Redis refuses to tell the time', async () => {
    let isFirst = true
    const { scripts, sent } = scriptsWith(() => {
      if (!isFirst) return 7
      isFirst = false
      throw new ReplyError('NOPERM no permissions')
    })
    assert.equal(await scripts.run(ACQUIRE), 7)
    assert.deepEqual(sent, ['time/read', 'lock/acquire'])
  })

  it('a late command has not run, if the caller does not wait any more', async () => {
    const fixture = new Copies()
    const { clock, lock, port } = fixture
    port.fault = ({ name }) => (name === 'lock/acquire' ? { requestMs: 2_000 + COMMAND_TIMEOUT_MS } : undefined)
    await assert.rejects(clock.until(lock.tryLock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(5_000)
    assert.deepEqual(fixture.redis.keys, [])
    port.fault = () => undefined
    await fixture.close()
  })

  it('the reply to a late command says so, and what time it is', async () => {
    const fixture = new Copies()
    const [command] = await fixture.commandsDuring(async () => await (await fixture.lock.lock()).unlock())
    await fixture.clock.advance(LATE_MS)
    assert.deepEqual(fixture.deliver([command as readonly string[]]), [[TOO_LATE, fixture.clock.now()]])
    await fixture.close()
  })
})

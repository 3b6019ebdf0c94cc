/** How a command ends: with a reply, with an error, or without either; and until when it counts as in flight. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { NoReplyError } from '../../src/delivery/replies.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { lockAcquire } from '../../src/lua/generated.js'
import { BusyClock, turn } from '../support/fakes/fake-clock.js'

const TIMEOUT_MS = 3_000
const TAKE = lockAcquire('a', 30_000, 'me:1')
const REFUSED = 'connect ECONNREFUSED 127.0.0.1:6379'

/** An error reply of Redis. */
class ErrorReply extends Error {}

let clock: BusyClock
let scripts: Scripts
/** What the Redis client does with the commands in flight, in order. */
let inFlight: { resolve: (reply: unknown) => void; reject: (error: unknown) => void }[]
let port: { -readonly [K in keyof RedisPort]: RedisPort[K] }

beforeEach(() => {
  clock = new BusyClock()
  inFlight = []
  port = {
    send: () => new Promise((resolve, reject) => inFlight.push({ resolve, reject })),
    isErrorReply: (error) => error instanceof ErrorReply,
    subscribe: async () => {},
    unsubscribe: async () => {},
    listen: () => {},
    close: async () => {},
  }
  scripts = new Scripts(port, clock, TIMEOUT_MS)
  scripts.learnTime('a', clock.now())
})

afterEach(async () => {
  await turn()
  clock.poll()
  assert.equal(scripts.isIdle, true, 'nothing is in flight')
  scripts.close()
  assert.equal(clock.pending, 0, 'no timer is left')
})

type Settle = (command: (typeof inFlight)[number]) => void

/** Sends a script; `settle` makes its outcome arrive. */
async function send(settle: Settle = () => {}) {
  const outcome = scripts.run(TAKE)
  outcome.catch(() => {})
  await turn()
  const command = inFlight.at(-1)
  assert(command)
  return { outcome, settle: () => settle(command) }
}

/** The time limit has passed, and the sockets have been read. */
async function timeOut(): Promise<void> {
  await clock.advance(TIMEOUT_MS)
  clock.poll()
}

describe('a command whose reply arrived while the event loop was busy beyond the time limit', () => {
  it('a command whose reply arrived during a busy event loop resolves to that reply', async () => {
    const { outcome, settle } = await send((command) => command.resolve(7))
    await clock.advance(TIMEOUT_MS)
    settle()
    await turn()
    clock.poll()
    assert.equal(await outcome, 7)
  })

  it('a command whose error arrived during a busy event loop rejects with that error', async () => {
    const { outcome, settle } = await send((command) => command.reject(new ErrorReply('WRONGTYPE')))
    await clock.advance(TIMEOUT_MS)
    settle()
    await turn()
    clock.poll()
    await assert.rejects(outcome, ErrorReply)
  })
})

describe('a command without a reply', () => {
  for (const [what, settle] of [
    ['a reply', (command) => command.resolve(7)],
    ['an error of Redis', (command) => command.reject(new ErrorReply('WRONGTYPE'))],
    ['an error of the connection', (command) => command.reject(new Error('Connection is closed'))],
  ] as const satisfies readonly [string, Settle][]) {
    it(`a command without a reply has ended at its time limit, also if ${what} arrives later`, async () => {
      const { outcome, settle: arrive } = await send(settle)
      await timeOut()
      await assert.rejects(outcome, NoReplyError)
      assert.equal(scripts.isIdle, true)
      arrive()
    })
  }

  it("a command without a reply rejects with the time limit or the Redis client's error, its cause", async () => {
    const silent = await send()
    await timeOut()
    await assert.rejects(silent.outcome, { message: 'no reply within 3000 ms' })
    const cause = new Error('Connection is closed')
    const { outcome, settle } = await send((command) => command.reject(cause))
    settle()
    await assert.rejects(outcome, { message: 'Connection is closed', cause })
  })

  it('a command gets a reply that only resembles the one to a command that came too late', async () => {
    const { outcome, settle } = await send((command) => command.resolve(['TOOLATE', 'soon']))
    settle()
    assert.deepEqual(await outcome, ['TOOLATE', 'soon'])
  })

  it('a command without a reply rejects with why there is no connection, if the client knows it', async () => {
    port.connectionError = new Error(REFUSED)
    const silent = await send()
    await timeOut()
    await assert.rejects(silent.outcome, { message: `no reply within 3000 ms (${REFUSED})` })
    const closed = await send((command) => command.reject(new Error('Connection is closed')))
    closed.settle()
    await assert.rejects(closed.outcome, { message: `Connection is closed (${REFUSED})` })
    const refused = await send((command) => command.reject(new Error(`Failed: ${REFUSED}`)))
    refused.settle()
    await assert.rejects(refused.outcome, { message: `Failed: ${REFUSED}` }, 'it is said once')
  })
})

describe('commands in flight', () => {
  it('commands in flight have all ended when idle() resolves', async () => {
    let isIdle = false
    const [one, other] = [await send(), await send()]
    const idle = scripts.idle().then(() => (isIdle = true))
    inFlight[0]?.resolve(1)
    assert.equal(await one.outcome, 1)
    await turn()
    assert.equal(isIdle, false)
    inFlight[1]?.resolve(2)
    assert.equal(await other.outcome, 2)
    await idle
    await scripts.idle()
  })
})

describe('a confirmation by replicas or by the disk', () => {
  it("a confirmation by replicas or disk takes up to twice its time in addition to a command's", async () => {
    port.acknowledge = () => new Promise(() => {})
    port.fsynced = () => new Promise(() => {})
    for (const confirm of [() => scripts.acknowledge('a', 1_000), () => scripts.fsynced('a', 1_000)]) {
      const errors: unknown[] = []
      confirm().catch((error: unknown) => errors.push(error))
      await clock.advance(2 * 1_000 + TIMEOUT_MS - 1)
      clock.poll()
      await turn()
      assert.equal(errors.length, 0)
      await clock.advance(1)
      clock.poll()
      await turn()
      assert(errors[0] instanceof NoReplyError)
    }
  })

  it('a confirmation by replicas or disk is unknown to a client that cannot ask for it', async () => {
    assert.equal(await scripts.acknowledge('a', 1_000), undefined)
    assert.equal(await scripts.fsynced('a', 1_000), undefined)
  })
})

/** A Redis client that gives the reply to one command to another after a reconnect, as node-redis before 6 does. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { PortEvents, RedisPort } from '../../src/adapters/port.js'
import { replaceWhenUnresponsive } from '../../src/adapters/replaceable-port.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

type Command = readonly string[]

/** Replies to each command with its last word, in order. */
class QueueingPort implements RedisPort {
  readonly #queue: { resolve(reply: unknown): void; reject(error: Error): void }[] = []
  events: PortEvents | undefined
  readonly sent: Command[] = []
  isClosed = false
  /** Replies to these scripts with an error. */
  refusal: Error | undefined

  send(command: Command): Promise<unknown> {
    this.sent.push(command)
    const { refusal } = this
    const reply = this.#enqueue()
    setImmediate(() => {
      const first = this.#queue.shift()
      if (refusal && command[0] === 'EVAL') first?.reject(refusal)
      else first?.resolve(command.at(-1))
    })
    return reply
  }

  /** A command that was lost with the connection, and stays in the queue. */
  loseOne(): Promise<unknown> {
    return this.#enqueue()
  }

  #enqueue(): Promise<unknown> {
    return new Promise((resolve, reject) => this.#queue.push({ resolve, reject }))
  }

  reconnect(): void {
    this.events?.reconnected()
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof Error && /^[A-Z]+ /.test(error.message)
  }

  listen(events: PortEvents): void {
    this.events = events
  }

  async subscribe(): Promise<void> {}
  async unsubscribe(): Promise<void> {}
  async close(): Promise<void> {
    this.isClosed = true
    for (const { reject } of this.#queue.splice(0)) reject(new Error('closed'))
  }
}

function setUp() {
  const [first, next] = [new QueueingPort(), new QueueingPort()]
  const warnings: unknown[] = []
  const port = replaceWhenUnresponsive(first, async () => next)
  let reconnects = 0
  port.listen({
    reconnected: () => reconnects++,
    resubscribed: () => {},
    warning: (warning) => warnings.push((warning as { code?: string }).code),
  })
  return { first, next, port, warnings, reconnects: () => reconnects }
}

describe('replies after a reconnect', () => {
  it('a connection whose replies are shifted gives none of them to anybody, and is replaced', async () => {
    for (const lost of [1, 2, 7]) {
      const { first, next, port, warnings } = setUp()
      assert.equal(await port.send(['EVALSHA', 'before'], 'k'), 'before')
      for (let count = 0; count < lost; count++) void first.loseOne()
      first.reconnect()
      const sent = Array.from({ length: 10 }, (_, index) => port.send(['EVALSHA', `call ${index}`], 'k'))
      for (const reply of sent) {
        const outcome = await settlesWithin(reply, 5_000)
        if (outcome.status === 'fulfilled') assert.fail(`${outcome.value} was believed`)
      }
      await waitUntil(() => warnings.length > 0)
      assert.deepEqual(warnings, ['REPLIES_MIXED_UP'])
      assert.equal(first.isClosed, true)
      assert.equal(await port.send(['EVALSHA', 'after'], 'k'), 'after')
      assert.deepEqual(next.sent.at(-1), ['EVALSHA', 'after'])
      await port.close()
    }
  })

  it('control: without the test after the reconnect, each command gets the reply to another one', async () => {
    const { first } = setUp()
    void first.loseOne()
    first.reconnect()
    const sent = [1, 2, 3].map((index) => first.send(['EVALSHA', `call ${index}`]))
    assert.deepEqual(await Promise.all(sent.slice(0, 2)), ['call 2', 'call 3'])
  })

  it('a command in flight whose reply is that to a later one does not get it', async () => {
    const { first, port } = setUp()
    await port.send(['EVALSHA', 'before'], 'k')
    // It stays in the queue of the client, which sends it no more.
    const send = first.send.bind(first)
    first.send = () => first.loseOne()
    const lost = port.send(['EVALSHA', 'lost'], 'k')
    first.send = send
    first.reconnect()
    void port.send(['EVALSHA', 'call'], 'k').catch(() => {})
    const outcome = await settlesWithin(lost, 5_000)
    assert.equal(outcome.status, 'rejected')
    await port.close()
  })

  it('replies are believed again once a text that was never sent before has come back', async () => {
    const { first, port, warnings, reconnects } = setUp()
    const before = port.send(['EVALSHA', 'before'], 'k')
    first.reconnect()
    const sent = Array.from({ length: 10 }, (_, index) => port.send(['EVALSHA', `call ${index}`], 'k'))
    assert.deepEqual(
      await Promise.all(sent),
      Array.from(sent, (_, index) => `call ${index}`),
    )
    assert.equal(await before, 'before')
    assert.equal(first.sent.filter(([name]) => name === 'EVAL').length, 1)
    assert.equal(reconnects(), 1)
    assert.deepEqual(warnings, [])
    await port.close()
  })

  it('a user who may not run the script of the test is served all the same', async () => {
    const { first, port, warnings } = setUp()
    await port.send(['EVALSHA', 'before'], 'k')
    first.refusal = new Error("NOPERM this user has no permissions to run the 'eval' command")
    first.reconnect()
    assert.equal(await port.send(['EVALSHA', 'after'], 'k'), 'after')
    assert.deepEqual(warnings, [])
    await port.close()
  })

  it('a server that is loading is asked again until it has loaded', async () => {
    const { first, port } = setUp()
    await port.send(['EVALSHA', 'before'], 'k')
    first.refusal = new Error('LOADING Redis is loading the dataset in memory')
    first.reconnect()
    const after = port.send(['EVALSHA', 'after'], 'k')
    await waitUntil(() => first.sent.filter(([name]) => name === 'EVAL').length > 4)
    first.refusal = undefined
    assert.equal(await after, 'after')
    await port.close()
  })
})

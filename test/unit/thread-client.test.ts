/** The client's side of the memory that it shares with the watchdog thread; the thread is a fake that only connects. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { lockRenew } from '../../src/lua/generated.js'
import { type Clock, threadClock } from '../../src/util/clock.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import { ThreadClient, threadFileNextTo } from '../../src/watchdog/thread-client.js'
import { FIRST_SLOT, micros, TAKE_OVER_AT, type ThreadStatus } from '../../src/watchdog/thread-protocol.js'
import { sleep } from '../support/wait-until.js'

const PERIOD_MS = 1_000

/** Replies that it is connected, with the memory that it was given. */
const THREAD = `
  import { parentPort } from 'node:worker_threads'
  parentPort.on('message', ({ client, ...message }) => {
    const memory = Object.values(message).find((value) => value?.memory)?.memory
    if (memory) parentPort.postMessage({ client, isReady: true, memory })
  })`

function unexpected(error: unknown): never {
  throw error
}

/** A client of the thread that shows its shared memory. */
class OpenThreadClient extends ThreadClient {
  words: BigInt64Array = new BigInt64Array()

  override receive(status: ThreadStatus & { readonly memory?: SharedArrayBuffer }): void {
    if (status.memory) this.words = new BigInt64Array(status.memory)
    super.receive(status)
  }
}

describe('the memory shared with the watchdog thread', () => {
  /** How far the client's clock is ahead of that of the threads, ms. */
  let aheadMs: number
  let client: OpenThreadClient

  beforeEach(async () => {
    aheadMs = 0
    const clock = { now: () => threadClock.now() + aheadMs } as Clock
    const terms = {
      periodMs: PERIOD_MS,
      batchSize: 100,
      connection: 'redis://127.0.0.1',
      maxBlockMs: 60_000,
      commandTimeoutMs: 3_000,
      leaseTimeMs: 3 * PERIOD_MS,
      file: `data:text/javascript,${encodeURIComponent(THREAD)}`,
    }
    client = new OpenThreadClient(clock, { uuid: () => '', fraction: () => 0.5 }, terms, unexpected, unexpected)
    await client.start()
  })

  afterEach(() => client.close())

  function lease(leasedAt: number, renewals: number[] = []): Watched {
    const call = lockRenew(['a'], ['client:1', 3 * PERIOD_MS])
    return {
      leasedAt,
      renewableUntil: Number.POSITIVE_INFINITY,
      renewal: () => call,
      renewalFor: () => call,
      renewed: (sentAt) => void renewals.push(sentAt),
      markLost: () => assert.fail('lost'),
      inspect: () => Number.POSITIVE_INFINITY,
    }
  }

  it('a renewal that the thread sent before the last sign of life is not counted after the machine slept', async () => {
    const renewals: number[] = []
    client.heartbeat(threadClock.now() + 60_000)
    const held = lease(threadClock.now(), renewals)
    client.watch(held)
    await sleep(5)
    const sentAt = Math.floor(threadClock.now())
    Atomics.store(client.words, FIRST_SLOT, micros(sentAt))
    client.catchUp(held)
    assert(renewals.length === 1 && Math.abs((renewals[0] ?? 0) - sentAt) < 1)

    await sleep(5)
    aheadMs = 30_000 // the machine slept, and only the client's clock continued
    client.heartbeat(threadClock.now() + aheadMs + 60_000)
    client.catchUp(held)
    assert.equal(renewals.length, 1)
  })

  it('a lease whose grant was slow brings the schedule of the thread forward', () => {
    const now = threadClock.now()
    const takesOverInMs = (): number => Number(Atomics.load(client.words, TAKE_OVER_AT)) / 1_000 - now
    client.heartbeat(now + PERIOD_MS)
    client.watch(lease(now))
    const usualMs = takesOverInMs()
    assert(usualMs > PERIOD_MS && usualMs < 2 * PERIOD_MS, `${usualMs} ms`)
    client.watch(lease(now - 0.9 * PERIOD_MS))
    const slowMs = takesOverInMs()
    assert(slowMs < usualMs - PERIOD_MS / 2, `${slowMs} ms instead of ${usualMs} ms`)
  })

  it('a lease that ends frees its slot for the next one, which the thread distinguishes by its id', () => {
    client.heartbeat(threadClock.now() + 60_000)
    const [first, second] = [lease(threadClock.now()), lease(threadClock.now())]
    client.watch(first)
    const id = Atomics.load(client.words, FIRST_SLOT)
    client.forget(first)
    assert.equal(Atomics.load(client.words, FIRST_SLOT), 0n)
    client.watch(second)
    assert.notEqual(Atomics.load(client.words, FIRST_SLOT), id)
  })
})

/** Sends back, as a refusal, the text of each message that it gets; ends when a script named `end` comes. */
const ECHO = `
  import { parentPort, threadId } from 'node:worker_threads'
  const text = (value) => JSON.stringify(value, (_, part) => typeof part === 'bigint' ? String(part) : part)
  parentPort.on('message', (message) => {
    if (message.script?.name === 'end') process.exit(3)
    parentPort.postMessage({ client: message.client, refused: { message: text(message), code: threadId } })
    if (message.registration) parentPort.postMessage({ client: message.client, isReady: true })
  })`

describe('the watchdog thread, seen from its clients', () => {
  interface Message {
    client: number
    registration?: { leaseTimeMs?: number; periodMs: number; file?: string }
    script?: { name: string }
    slot?: number
    id?: string
    isClosed?: boolean
    renewal?: { sha1: string; keys: string[]; args: unknown[]; until: number | null }
  }
  let clients: ThreadClient[]
  let warnings: Error[]
  let errors: (Error & { code?: unknown })[]

  beforeEach(() => {
    ;[clients, warnings, errors] = [[], [], []]
  })

  afterEach(async () => await Promise.all(clients.map((client) => client.close())))

  function open(file: string): ThreadClient {
    const clock = { now: () => threadClock.now() } as Clock
    const terms = {
      periodMs: PERIOD_MS,
      batchSize: 100,
      connection: 'redis://127.0.0.1',
      maxBlockMs: 60_000,
      commandTimeoutMs: 3_000,
      leaseTimeMs: 3 * PERIOD_MS,
      file,
    }
    const onWarning = (warning: Error): void => void warnings.push(warning)
    const onRefused = (error: unknown): void => void errors.push(error as Error)
    const client = new ThreadClient(clock, { uuid: () => '', fraction: () => 0.5 }, terms, onWarning, onRefused)
    clients.push(client)
    return client
  }

  const fileOf = (source: string): string => `data:text/javascript,${encodeURIComponent(source)}`
  const messages = (): Message[] => errors.map(({ message }) => JSON.parse(message) as Message)

  async function until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) await sleep(5)
  }

  function held(name = 'a', script = lockRenew(['a'], []).script): Watched {
    const call = { script, keys: [name], args: ['client:1', 3 * PERIOD_MS] }
    return {
      leasedAt: threadClock.now(),
      renewableUntil: 10 ** 9,
      renewal: () => call,
      renewalFor: () => call,
      renewed: () => {},
      markLost: () => {},
      inspect: () => 0,
    }
  }

  it('a thread that cannot connect fails start() with its error', async () => {
    const source = `
      import { parentPort } from 'node:worker_threads'
      parentPort.on('message', ({ client }) => parentPort.postMessage({ client, failure: { message: 'no Redis', code: 7 } }))`
    await assert.rejects(open(fileOf(source)).start(), { message: 'watchdog thread: no Redis', code: 7 })
    assert.deepEqual(warnings, [])
  })

  it('a file that cannot be run as a thread fails start() as the option that names it', async () => {
    for (const file of ['nowhere', fileOf('throw new Error("broken")'), fileOf('process.exit(3)')]) {
      await assert.rejects(open(file).start(), { code: 'LOCK_CONFIG', path: 'watchdog.thread', value: file })
    }
    assert.deepEqual(warnings, [])
    await sleep(150) // it is not started again
  })

  it('is one for all clients of a process, and goes on until the last one closes', async () => {
    const first = open(fileOf(ECHO))
    const starting = first.start()
    const second = open(fileOf(ECHO))
    await Promise.all([starting, second.start()])
    assert.equal(new Set(errors.map(({ code }) => code)).size, 1)
    assert.notEqual(first.id, second.id)
    await first.close()
    second.watch(held())
    await until(() => messages().some(({ renewal }) => renewal))
    assert.deepEqual(
      messages().filter(({ isClosed }) => isClosed),
      [],
      'a closed client hears nothing more',
    )
    await second.close()
    const third = open(fileOf(ECHO))
    await third.start()
    assert.equal(new Set(errors.map(({ code }) => code)).size, 2)
  })

  it('is sent each script once, and the renewal of every lease with its slot, its id and its end', async () => {
    const client = open(fileOf(ECHO))
    await client.start()
    client.heartbeat(threadClock.now() + PERIOD_MS)
    const [one, two] = [held('a'), held('b')]
    client.watch(one)
    client.watch(two)
    client.watch(two) // nothing has changed
    await until(() => messages().filter(({ renewal }) => renewal).length === 2)
    assert.equal(messages().filter(({ script }) => script).length, 1)
    const sent = messages().filter(({ renewal }) => renewal)
    assert.deepEqual(
      sent.map(({ slot, id, renewal }) => [slot, id, renewal?.keys]),
      [
        [FIRST_SLOT, '1', ['a']],
        [FIRST_SLOT + 1, '2', ['b']],
      ],
    )
    for (const { renewal } of sent) assert(Math.abs((renewal?.until ?? 0) - 10 ** 9) < 1)
    assert.equal(messages()[0]?.registration?.leaseTimeMs, undefined)
    assert.equal(messages()[0]?.registration?.file, undefined)
  })

  it('that ends is reported once, started again, and sent every lease again under a new id', async () => {
    const client = open(fileOf(ECHO))
    await client.start()
    client.watch(held())
    const ending = held('b', { name: 'end', text: '', sha1: '' })
    client.watch(ending)
    await until(() => warnings.length > 0)
    client.forget(ending)
    await until(() => messages().filter(({ registration }) => registration).length === 2)
    assert.deepEqual(
      warnings.map((warning) => (warning as Error & { code: string }).code),
      ['WATCHDOG_THREAD_ENDED'],
    )
    assert.match(warnings[0]?.message as string, /it exited with code 3/)
    await until(() => messages().filter(({ renewal }) => renewal?.keys[0] === 'a').length === 2)
    const ids = messages().flatMap(({ renewal, id }) => (renewal?.keys[0] === 'a' ? [id] : []))
    assert.equal(new Set(ids).size, 2)
  })

  it('has room for as many leases as there are', async () => {
    const client = open(fileOf(ECHO))
    await client.start()
    for (let count = 0; count < 1_100; count++) client.watch(held(`lock ${count}`))
    await until(() => messages().filter(({ renewal }) => renewal).length === 1_100)
    assert.equal(new Set(messages().map(({ slot }) => slot)).size, 1 + 1_100)
  })

  it('may have renewed what is forgotten after it took over, and nothing that was forgotten before', async () => {
    const client = open(fileOf(ECHO))
    await client.start()
    const [early, late] = [held(), held('b')]
    client.heartbeat(threadClock.now() + PERIOD_MS)
    client.watch(early)
    assert.equal(client.forget(early), false)
    assert.equal(client.forget(early), false)
    client.watch(late)
    client.heartbeat(threadClock.now() - PERIOD_MS) // due long ago
    await sleep(2)
    assert.equal(client.forget(late), true)
    const overtaken = held('c')
    client.watch(overtaken)
    client.heartbeat(threadClock.now() + PERIOD_MS)
    assert.equal(client.forget(overtaken), true, 'it was in charge before that sign of life')
  })

  it('does not get a lease that the watchdog must not renew, and loses one that gets a lease of its own', async () => {
    const client = open(fileOf(ECHO))
    await client.start()
    client.heartbeat(threadClock.now() + PERIOD_MS)
    let renewableUntil = 0
    const lease = Object.defineProperty(held(), 'renewableUntil', { get: () => renewableUntil })
    client.watch(lease)
    renewableUntil = 10 ** 9
    client.watch(lease)
    renewableUntil = 2 * 10 ** 9
    client.watch(lease)
    renewableUntil = 0
    client.watch(lease)
    client.watch(held('b'))
    await until(() => messages().some(({ renewal }) => renewal?.keys[0] === 'b'))
    const sent = messages().filter(({ renewal }) => renewal)
    assert.deepEqual(
      sent.map(({ slot, renewal }) => [slot, renewal?.keys[0]]),
      [
        [FIRST_SLOT, 'a'],
        [FIRST_SLOT, 'a'],
        [FIRST_SLOT, 'b'],
      ],
    )
  })

  it('has a file next to the module, if it is known where that is', () => {
    assert.equal(threadFileNextTo('file:///app/connect.js'), 'file:///app/watchdog-thread.js')
    assert.throws(() => threadFileNextTo(undefined), { code: 'LOCK_CONFIG', path: 'watchdog.thread' })
  })
})

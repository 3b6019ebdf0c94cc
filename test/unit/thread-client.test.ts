/** The watchdog thread, seen from its clients; the threads are fakes. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import type { ConfigError } from '../../src/index.js'
import { lockRenew } from '../../src/lua/generated.js'
import { type Clock, threadClock } from '../../src/util/clock.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import { ThreadClient, threadFileNextTo } from '../../src/watchdog/thread-client.js'
import { FIRST_SLOT } from '../../src/watchdog/thread-protocol.js'
import { fileOf, PERIOD_MS, random, termsWith } from '../support/thread-terms.js'
import { sleep } from '../support/wait-until.js'

/** Sends back, as a refusal, the text of each message that it gets; ends when a script named `end` comes. */
const ECHO = fileOf(`
  import { parentPort, threadId } from 'node:worker_threads'
  const text = (value) => JSON.stringify(value, (_, part) => typeof part === 'bigint' ? String(part) : part)
  parentPort.on('message', (message) => {
    if (message.script?.name === 'end') process.exit(3)
    parentPort.postMessage({ client: message.client, refused: { message: text(message), code: threadId } })
    if (message.registration) parentPort.postMessage({ client: message.client, isReady: true })
  })`)

/** Sends back, as a failure, what it inherited from the process. */
const INHERITING = fileOf(`
  import { parentPort } from 'node:worker_threads'
  const { env, execArgv } = process
  const message = JSON.stringify([env.HOLDFAST_TEST, env.NODE_OPTIONS, execArgv])
  parentPort.on('message', ({ client }) => parentPort.postMessage({ client, failure: { message } }))`)

/** Connects, unless HOLDFAST_TEST says that it cannot; then, or when a script named `end` comes, it ends. */
const ENDING = fileOf(`
  import { parentPort } from 'node:worker_threads'
  parentPort.on('message', ({ client, registration, script }) => {
    const canConnect = process.env.HOLDFAST_TEST === undefined
    if (registration) parentPort.postMessage(canConnect ? { client, isReady: true } : { client, failure: { message: 'no' } })
    if (!canConnect || script?.name === 'end') process.exit(3)
  })`)

const END = { name: 'end', text: '', sha1: '' }
/** How far the clocks of the clients are ahead of that of the threads, ms. */
const AHEAD_MS = 7_000

/** One that fires on request. */
interface Timer {
  readonly delayMs: number
  readonly action: () => void
  readonly keepAlive: boolean
  isCancelled: boolean
}

const env: { HOLDFAST_TEST?: string; NODE_OPTIONS?: string } = process.env

let now: number
/** Keeps this process alive, which neither the threads nor the timers on request do. */
let alive: NodeJS.Timeout
let timers: Timer[]
let clients: ThreadClient[]
let warnings: (Error & { code?: unknown })[]
let errors: (Error & { code?: unknown })[]

beforeEach(() => {
  now = 50_000
  alive = setInterval(() => {}, 60_000)
  ;[timers, clients, warnings, errors] = [[], [], [], []]
  mock.method(threadClock, 'now', () => now)
  mock.method(threadClock, 'after', (delayMs: number, action: () => void, keepAlive = true) => {
    const timer = { delayMs, action, keepAlive, isCancelled: false }
    timers.push(timer)
    return () => {
      timer.isCancelled = true
    }
  })
})

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()))
  mock.restoreAll()
  clearInterval(alive)
  delete env.HOLDFAST_TEST
})

function open(file: string): ThreadClient {
  const clock = { now: () => now + AHEAD_MS } as Clock
  const onWarning = (warning: Error): void => void warnings.push(warning)
  const onRefused = (error: unknown): void => void errors.push(error as Error)
  const client = new ThreadClient(clock, random, termsWith(file), onWarning, onRefused)
  clients.push(client)
  return client
}

async function failureOf(starting: Promise<void>): Promise<ConfigError & { readonly cause: Error }> {
  return await starting.then(
    () => assert.fail('it has started'),
    (error) => error,
  )
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(1)
}

function held(name = 'a', script = lockRenew(['a'], []).script): Watched {
  const call = { script, keys: [name], args: ['client:1', 3 * PERIOD_MS] }
  return {
    leasedAt: now + AHEAD_MS,
    renewableUntil: 10 ** 9,
    renewal: () => call,
    renewalFor: () => call,
    renewed: () => {},
    markLost: () => {},
    inspect: () => 0,
  }
}

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
  const messages = (): Message[] => errors.map(({ message }) => JSON.parse(message) as Message)

  it('a thread that cannot connect fails start() with its error', async () => {
    const source = `
      import { parentPort } from 'node:worker_threads'
      parentPort.on('message', ({ client }) => parentPort.postMessage({ client, failure: { message: 'no Redis', code: 7 } }))`
    await assert.rejects(open(fileOf(source)).start(), { message: 'watchdog thread: no Redis', code: 7 })
    assert.deepEqual(warnings, [])
  })

  it('a file that cannot be run as a thread fails start() as the option that names it, and is not tried again', async () => {
    for (const [file, cause] of [
      ['nowhere', /Invalid URL/],
      [fileOf('throw new Error("broken")'), /^broken$/],
      [fileOf('process.exit(3)'), /^it exited with code 3$/],
    ] as const) {
      const error = await failureOf(open(file).start())
      assert.deepEqual([error.code, error.path, error.value], ['LOCK_CONFIG', 'watchdog.thread', file])
      assert.match(error.cause.message, cause)
    }
    assert.deepEqual(warnings, [])
    assert(timers.every(({ isCancelled }) => isCancelled))
  })

  it('the watchdog thread fails start() if it is not connected within 30 s', async () => {
    const starting = open(fileOf('')).start()
    const [timer] = timers as [Timer]
    assert.deepEqual([timer.delayMs, timer.keepAlive], [30_000, true])
    timer.action()
    const { code, path, cause } = await failureOf(starting)
    assert.deepEqual([code, path], ['LOCK_CONFIG', 'watchdog.thread'])
    assert.match(cause.message, /did not start within 30000 ms/)
    assert.deepEqual([timers.length, timer.isCancelled], [1, true])
  })

  it('the watchdog thread has the environment of the process, but none of its options of Node', async () => {
    const { NODE_OPTIONS } = env
    Object.assign(env, { HOLDFAST_TEST: 'here', NODE_OPTIONS: '--no-deprecation' })
    await assert.rejects(open(INHERITING).start(), { message: 'watchdog thread: ["here","",[]]' })
    if (NODE_OPTIONS === undefined) delete env.NODE_OPTIONS
    else env.NODE_OPTIONS = NODE_OPTIONS
  })

  it('the watchdog thread is one for all clients of a process, and goes on until the last one closes', async () => {
    const first = open(ECHO)
    const starting = first.start()
    const second = open(ECHO)
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
    const third = open(ECHO)
    await third.start()
    assert.equal(new Set(errors.map(({ code }) => code)).size, 2)
    await third.close()
    assert.equal(timers.length, 3, 'those of start(): it did not end by itself')
    assert(timers.every(({ isCancelled }) => isCancelled))
  })

  it("the watchdog thread is sent each script once, and each lease's renewal with slot, id and end", async () => {
    const client = open(ECHO)
    await client.start()
    client.heartbeat(now + AHEAD_MS + PERIOD_MS)
    const two = held('b')
    for (const lease of [held('a'), two, two, held('c')]) client.watch(lease)
    await until(() => messages().some(({ renewal }) => renewal?.keys[0] === 'c'))
    assert.equal(messages().filter(({ script }) => script).length, 1)
    const sent = messages().filter(({ renewal }) => renewal)
    const endsAt = 10 ** 9 - AHEAD_MS
    assert.deepEqual(
      sent.map(({ slot, id, renewal }) => [slot, id, renewal?.keys, renewal?.until]),
      [
        [FIRST_SLOT, '1', ['a'], endsAt],
        [FIRST_SLOT + 1, '2', ['b'], endsAt],
        [FIRST_SLOT + 2, '3', ['c'], endsAt],
      ],
    )
    assert.equal(messages()[0]?.registration?.leaseTimeMs, undefined)
    assert.equal(messages()[0]?.registration?.file, undefined)
  })

  it('a watchdog thread has no renewal in flight for a lease that it does not know', async () => {
    const client = open(ECHO)
    await client.start()
    assert.equal(client.unwatch(held()), false)
  })

  it('a watchdog thread that ends is reported, restarted, and sent every lease again under a new id', async () => {
    const client = open(ECHO)
    await client.start()
    client.watch(held())
    const ending = held('b', END)
    client.watch(ending)
    await until(() => warnings.length > 0)
    const [{ code, message, cause }] = warnings as [(typeof warnings)[0]]
    assert.equal(code, 'WATCHDOG_THREAD_ENDED')
    assert.match(message, /it exited with code 3/)
    assert.match((cause as Error).message, /it exited with code 3/)
    client.unwatch(ending)
    timers.at(-1)?.action()
    await until(() => messages().filter(({ renewal }) => renewal?.keys[0] === 'a').length === 2)
    assert.equal(messages().filter(({ registration }) => registration).length, 2)
    const ids = messages().flatMap(({ renewal, id }) => (renewal?.keys[0] === 'a' ? [id] : []))
    assert.equal(new Set(ids).size, 2)
  })

  it('a watchdog thread that keeps ending is reported once, and restarted after growing pauses', async () => {
    const client = open(ENDING)
    await client.start()
    const [limit] = timers.splice(0)
    assert.equal(limit?.isCancelled, true)
    env.HOLDFAST_TEST = 'no connection'
    const ending = held('a', END)
    client.watch(ending)
    for (let ends = 1; ends <= 3; ends++) {
      await until(() => timers.length === ends)
      if (ends < 3) timers.at(-1)?.action()
    }
    assert.equal(warnings.length, 1)
    delete env.HOLDFAST_TEST
    timers.at(-1)?.action() // now it connects before it ends
    await until(() => timers.length === 4)
    assert.equal(warnings.length, 2)
    assert.deepEqual(
      timers.map(({ delayMs, keepAlive }) => [delayMs, keepAlive]),
      [75, 150, 300, 75].map((delayMs) => [delayMs, false]),
    )
  })

  it('the watchdog thread has room for as many leases as there are', async () => {
    const client = open(ECHO)
    await client.start()
    for (let count = 0; count < 1_100; count++) client.watch(held(`lock ${count}`))
    await until(() => messages().filter(({ renewal }) => renewal).length === 1_100)
    assert.equal(new Set(messages().map(({ slot }) => slot)).size, 1 + 1_100)
  })

  it('the watchdog thread gets no lease that must not be renewed, and loses one with its own lease', async () => {
    const client = open(ECHO)
    await client.start()
    client.heartbeat(now + AHEAD_MS + PERIOD_MS)
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

  it('the watchdog thread has a file next to the module, if it is known where that is', () => {
    assert.equal(threadFileNextTo('file:///app/connect.js'), 'file:///app/watchdog-thread.js')
    assert.throws(() => threadFileNextTo(undefined), { code: 'LOCK_CONFIG', path: 'watchdog.thread' })
  })
})

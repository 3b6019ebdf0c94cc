/**
 * Proxies of hosted clusters read every script, and refuse those whose keys are not written KEYS[n], and commands with keys of
 * different slots. Here a stand-in for one, in front of a real Redis.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { type Client, connect } from '../../src/index.js'
import { slotOf } from '../../src/wire/slots.js'
import { type Kind, kinds } from '../support/kinds.js'
import { offenceOf } from '../support/lua-rule.js'
import { SCRIPT_NAMES } from '../support/script-names.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { FrameCutter, wordsOf } from '../support/servers/resp-frames.js'
import { waitUntil } from '../support/wait-until.js'

const BAD_SCRIPT =
  'ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array, and KEYS should not be in expression'
const OTHER_SLOT = 'ERR eval/evalsha command keys must be in same slot'
/** A renewal is soon, and a lease long enough for a slow machine. */
const LEASE_MS = 6_000

class ReadingProxy {
  /** What it refused. */
  readonly refused: string[] = []
  /** Names of scripts that it passed on. */
  readonly ran = new Set<string>()
  readonly #target: number
  readonly #allowsLists: boolean
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #port = 0

  /** @param allowsLists  false: a script must not unpack KEYS, as batches do; slots do not matter */
  constructor(target: number, allowsLists: boolean) {
    this.#target = target
    this.#allowsLists = allowsLists
    this.#server = createServer((client) => this.#serve(client))
  }

  async start(): Promise<string> {
    this.#port = await freePort()
    this.#server.listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
    return `redis://127.0.0.1:${this.#port}`
  }

  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #serve(client: Socket): void {
    const redis = connectTo(this.#target, '127.0.0.1')
    const cutter = new FrameCutter()
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      this.#sockets.add(socket)
      socket.on('error', () => {}).on('close', () => other.destroy())
    }
    redis.pipe(client)
    client.on('data', (chunk: Buffer) => {
      for (const frame of cutter.cut(chunk)) {
        const error = this.#errorFor(wordsOf(frame))
        // Redis replies with the error, in the order of the commands.
        redis.write(error === undefined ? frame : requestOf('EVAL', 'return redis.error_reply(ARGV[1])', '0', error))
      }
    })
  }

  #errorFor([command = '', script = '', count, ...words]: readonly string[]): string | undefined {
    if (!/^EVAL/i.test(command)) return undefined
    const isText = /^EVAL$/i.test(command)
    const isRefused = offenceOf(script) !== undefined || (!this.#allowsLists && script.includes('unpack(KEYS'))
    if (isText && isRefused) {
      this.refused.push(script)
      return BAD_SCRIPT
    }
    const slots = new Set(words.slice(0, Number(count)).map(slotOf))
    if (this.#allowsLists && slots.size > 1) return OTHER_SLOT
    if (!isText) this.ran.add(SCRIPT_NAMES.get(script) ?? '')
    return undefined
  }
}

function requestOf(...words: string[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
}

describe('a proxy that reads scripts', () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  async function setUp(t: TestContext, allowsLists = true) {
    await redis.admin.flushall()
    await redis.admin.script('FLUSH')
    const proxy = new ReadingProxy(redis.port, allowsLists)
    const url = await proxy.start()
    t.after(() => proxy.stop())
    const open = async (): Promise<Client> => {
      const client = await connect({ url, lockWatchdogTimeoutMs: LEASE_MS, inspection: false })
      t.after(() => client.close())
      return client
    }
    return { proxy, url, open }
  }

  it('control: refuses a key in a variable, and keys of different slots', async (t) => {
    const { url } = await setUp(t)
    const direct = new Redis(url)
    t.after(() => direct.disconnect())
    await assert.rejects(direct.eval("local key = KEYS[1]\nreturn redis.call('get', key)", 1, 'a'), /bad lua script/)
    await assert.rejects(direct.eval("return redis.call('mget', KEYS[1])", 2, 'a', 'b'), /in same slot/)
    assert.equal(await direct.eval("return redis.call('get', KEYS[1])", 1, 'a'), null)
  })

  const isRenewal = (name: string): boolean => /\/renew$/.test(name)
  const holdsAlone = ({ isShared }: Kind): boolean => !isShared

  for (const kind of kinds) {
    it(`a proxy that reads scripts lets a ${kind.name} be held, renewed, waited for and released`, async (t) => {
      const { proxy, open } = await setUp(t)
      const [one, other] = [await open(), await open()]
      const lock = kind.lock(one, 'a')
      const hold = await lock.lock()
      if (kind.isReentrant && !kind.isJoint) await (await lock.lock({ within: hold })).unlock()
      assert.equal(await kind.rival(other, 'a').tryLock(), null)
      const waiting = holdsAlone(kind) ? kind.lock(other, 'a').lock() : kind.rival(other, 'a').lock()
      await waitUntil(() => [...proxy.ran].some(isRenewal), { message: 'its lease is renewed' })
      hold.assertHeld()
      await hold.unlock()
      await (await waiting).unlock()
      assert.deepEqual(proxy.refused, [])
    })
  }

  it('a proxy that reads scripts lets semaphores and latches be used', async (t) => {
    const { proxy, open } = await setUp(t)
    const client = await open()
    const semaphore = client.getSemaphore('s')
    await semaphore.trySetPermits(2)
    await semaphore.acquire()
    await semaphore.release()
    await semaphore.delete()
    const permits = client.getPermitExpirableSemaphore('p')
    await permits.trySetPermits(1)
    const permit = await permits.acquire()
    assert.equal(await permits.tryAcquire(), null)
    await permit.unlock()
    await permits.delete()
    const latch = client.getCountDownLatch('l')
    await latch.trySetCount(1)
    await latch.countDown()
    await latch.await()
    assert.deepEqual(proxy.refused, [])
  })

  for (const [what, allowsLists] of [
    ['keys of different slots', true],
    ['scripts that unpack KEYS', false],
  ] as const) {
    it(`a proxy that reads scripts lets many locks be taken in one turn, although it refuses ${what}`, async (t) => {
      const { proxy, open } = await setUp(t, allowsLists)
      const client = await open()
      const warnings: unknown[] = []
      client.on('warning', (warning) => warnings.push((warning as { code?: string }).code))
      for (let round = 0; round < 3; round++) {
        const holds = await Promise.all(Array.from({ length: 40 }, (_, n) => client.getLock(`a:${n}`).lock()))
        await Promise.all(holds.map((hold) => hold.unlock()))
      }
      assert.deepEqual(warnings, allowsLists ? ['CROSSSLOT_REFUSED'] : [])
      assert.equal(proxy.refused.length === 0, allowsLists)
      assert.deepEqual(await redis.admin.keys('a:*'), [])
    })
  }
})

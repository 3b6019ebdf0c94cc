/** What is left of grants after a power failure of the server, with and without `checkLockFsynced`. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type Client, type ConnectOptions, connect, type Hold, NotDurableError } from '../../src/index.js'
import { cutPower, hasDisks, ON_ITS_OWN_DISK } from '../support/power.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { hasWaitAof, waitsForFsync } from '../support/servers/waitaof.js'
import { sleep } from '../support/wait-until.js'

const ROUNDS = 2
const TASKS = 20
/** Long enough to be there after the restart. */
const LEASE = { leaseTimeMs: 600_000 }

type UserClient = NonNullable<ConnectOptions['client']>

/** The tasks of one client: what they believe to hold when the power fails, and what was refused before. */
interface Believers {
  readonly client: Client
  readonly end: () => Promise<void>
  readonly holds: Hold[]
  readonly refused: NotDurableError[]
}

describe('a power failure of one server with an AOF', {
  skip: !hasDisks() && 'it takes Linux, and root to mount a disk',
}, () => {
  const args = ['--appendonly', 'yes']
  let server: RedisServer
  before(async () => {
    server = await startRedis({ args, through: ON_ITS_OWN_DISK })
  })
  after(() => server.stop())

  for (const appendfsync of ['everysec', 'always']) {
    it(`no grant confirmed by checkLockFsynced is lost in a power cut under load with appendfsync ${appendfsync}`, async (t) => {
      if (!(await hasWaitAof(server))) return t.skip('this server has no WAITAOF')
      await server.restart([...args, '--appendfsync', appendfsync])
      const isBelieved = appendfsync === 'always' || (await waitsForFsync(server))
      let lostWithout = 0
      for (let round = 0; round < ROUNDS; round++) {
        const checked = [await open(ioredis(), true), await open(await nodeRedis(), true)]
        const unchecked = await open(ioredis(), false)
        try {
          await loadAndCut([...checked, unchecked])
          for (const one of checked) {
            const reasons = [...new Set(one.refused.map(({ reason }) => reason))]
            assert.equal(await lostOf(one), 0, `of ${one.holds.length}`)
            if (isBelieved) assert(one.holds.length >= TASKS, `${one.holds.length} granted, ${reasons} refused`)
            else assert.deepEqual([one.holds.length, reasons], [0, ['refused']])
          }
          const lost = await lostOf(unchecked)
          const granted = checked.map(({ holds }) => holds.length).join(' and ')
          t.diagnostic(`with it ${granted} granted, none lost; without ${unchecked.holds.length} granted, ${lost} lost`)
          lostWithout += lost
        } finally {
          for (const { end } of [...checked, unchecked]) await end()
          await server.admin.flushall()
        }
      }
      // The control: with everysec, unconfirmed grants are lost.
      assert.equal(lostWithout > 0, appendfsync === 'everysec', `${lostWithout} lost without checkLockFsynced`)
    })
  }

  function ioredis(): { user: UserClient; end: () => void } {
    const redis = new Redis(server.port, { retryStrategy: () => 50 })
    redis.on('error', () => {})
    return { user: redis, end: () => redis.disconnect() }
  }

  async function nodeRedis(): Promise<{ user: UserClient; end: () => void }> {
    const redis = createClient({ url: server.url })
    redis.on('error', () => {})
    await redis.connect()
    return { user: redis, end: () => redis.destroy() }
  }

  async function open({ user, end }: ReturnType<typeof ioredis>, checkLockFsynced: boolean): Promise<Believers> {
    const client = await connect({ client: user, checkLockFsynced })
    return {
      client,
      async end() {
        await client.close()
        end()
      },
      holds: [],
      refused: [],
    }
  }

  /** Tasks take one new lock after the other, of three kinds, until the power is cut at some moment. */
  async function loadAndCut(all: readonly Believers[]): Promise<void> {
    let isOn = true
    const running = all.flatMap(({ client, holds, refused }, at) =>
      Array.from({ length: TASKS }, async (_, task) => {
        for (let turn = 0; isOn; turn++) {
          const name = `cut:${at}:${task}:${turn}`
          const lock = [client.getLock(name), client.getFencedLock(name), client.getFairLock(name)][turn % 3]
          try {
            const hold = await lock?.tryLock(LEASE)
            if (isOn && hold) holds.push(hold)
          } catch (error) {
            if (error instanceof NotDurableError) refused.push(error)
          }
          await sleep(10)
        }
      }),
    )
    await sleep(2_500 + Math.random() * 1_000)
    await cutPower(server)
    isOn = false
    await server.restart()
    await Promise.all(running)
  }

  async function lostOf({ holds }: Believers): Promise<number> {
    const there = await Promise.all(holds.map(({ lockName, holder }) => server.admin.hexists(lockName, holder)))
    return there.filter((isThere) => isThere === 0).length
  }
})

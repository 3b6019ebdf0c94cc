/**
 * The client on a model of Redis, under faults, on a fake clock: many short runs, each from a seed. The same seed gives the
 * same run. To repeat one: SIMULATION_SEED=17 node --test build/test/unit/simulation.test.js
 For more runs: SIMULATION_LIVES=20000
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Client } from '../../src/client.js'
import { type Hold, type Lock, LockError, type LockOptions } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { Dice } from '../support/dice.js'
import { FakeClock } from '../support/fake-clock.js'
import { FakePort, type Fault, type Sent } from '../support/fake-port.js'
import { FakeRedis, FakeReplyError } from '../support/fake-redis.js'

const LIVES = Number(process.env['SIMULATION_LIVES'] ?? 500)
const CLIENTS = 3
const TASKS_PER_CLIENT = 3
/** Two that share a channel. */
const LOCKS = ['a', '{a}']
/** The kinds of lock, one for each life. A write lock cannot be handed over. */
const writeLock = (client: Client, name: string): Lock => client.getReadWriteLock(name).writeLock()
const KINDS: readonly ((client: Client, name: string) => Lock)[] = [
  (client, name) => client.getLock(name),
  (client, name) => client.getLock(name),
  (client, name) => client.getFairLock(name),
  (client, name) => client.getFencedLock(name),
  writeLock,
]
const LEASE_MS = 3_000
const LONGEST_LEASE_MS = 5_000
const COMMAND_TIMEOUT_MS = 1_000
/** How long things go wrong. */
const STORM_MS = 15_000

const ERROR_REPLIES = [
  'BUSY Redis is busy running a script',
  'LOADING Redis is loading the dataset in memory',
  "READONLY You can't write against a read only replica.",
  'ERR injected',
]

/** What happens in a life, and the randomness of its clients. */
class Luck extends Dice {
  override uuid(): string {
    const number = this.between(0, 2 ** 32)
    // Every other one is taken for a client of Redisson by those that wait.
    return number % 2 ? `client-${number}` : `client-${number}-401dfa57`
  }
}

/** A way to Redis on which commands keep their order, and nearly anything else goes wrong. */
class Link {
  readonly port: FakePort
  readonly #world: World
  #lastArrivalAt = 0
  #isDownUntil = 0

  constructor(world: World) {
    this.#world = world
    this.port = new FakePort(world.clock, world.redis)
    this.port.fault = (sent) => this.#faultOf(sent)
  }

  /** A new connection: what is still on its way on the old one may arrive after what is sent on the new one. */
  reconnect(): void {
    this.#lastArrivalAt = 0
    this.port.reconnect()
  }

  /** Nothing gets through for a while. */
  goDown(ms: number): void {
    this.#isDownUntil = this.#world.clock.now() + ms
    this.port.isDeaf = true
  }

  #faultOf({ name }: Sent): Fault {
    const { clock, dice, isStormy } = this.#world
    if (clock.now() < this.#isDownUntil) return { lost: 'request' }
    const travelMs = (): number => {
      if (!isStormy || dice.chance(0.85)) return dice.between(1, 5)
      return dice.between(1, dice.chance(0.8) ? 200 : 2 * COMMAND_TIMEOUT_MS)
    }
    const requestMs = Math.max(travelMs(), this.#lastArrivalAt - clock.now())
    if (name === 'message') return { requestMs: travelMs(), lost: isStormy && dice.chance(0.1) ? 'reply' : undefined }
    this.#lastArrivalAt = clock.now() + requestMs
    const fault = { requestMs, replyMs: travelMs() }
    if (!isStormy || dice.chance(0.8)) return fault
    const failsWith = 'Connection is closed'
    if (name === 'SUBSCRIBE') return { ...fault, ...dice.pick([{ failsWith }, { lost: 'reply' }]) }
    return dice.pick<() => Fault>([
      () => ({ ...fault, lost: 'request' }),
      () => ({ ...fault, lost: 'reply' }),
      () => ({ ...fault, failsWith, lost: 'request' }),
      () => ({ ...fault, failsWith }),
      () => ({ ...fault, errorReply: dice.pick(ERROR_REPLIES) }),
      () => {
        const resentMs = dice.between(0, 500)
        this.#lastArrivalAt += resentMs
        return { ...fault, resentMs }
      },
    ])()
  }
}

class World {
  readonly clock = new FakeClock()
  readonly redis = new FakeRedis(this.clock)
  readonly dice: Luck
  readonly #kind: (client: Client, name: string) => Lock
  readonly links: readonly Link[]
  readonly clients: readonly Client[]
  readonly closed = new Set<Client>()
  /** Those that are live, and how often the lock had gone from caller to caller when each was taken. */
  readonly #holds = new Map<Hold, number>()
  readonly #stormEndsAt = this.clock.now() + STORM_MS
  grants = 0
  handOffs = 0
  losses = 0

  constructor(seed: number) {
    this.dice = new Luck(seed)
    this.#kind = this.dice.pick(KINDS)
    this.links = Array.from({ length: CLIENTS }, () => new Link(this))
    this.clients = this.links.map(({ port }) => {
      const options = {
        lockWatchdogTimeoutMs: LEASE_MS,
        commandTimeoutMs: COMMAND_TIMEOUT_MS,
        maxHandOffs: this.dice.pick([0, 3, 1_000]),
        maxHandOffMs: this.dice.pick([50, 1_000, 2 * LEASE_MS]),
      }
      const client = new Client(port, options, { clock: this.clock, random: this.dice })
      client.on('lost', () => this.losses++)
      return client
    })
  }

  lock(client: Client, name: string): Lock {
    return this.#kind(client, name)
  }

  get isStormy(): boolean {
    return this.clock.now() < this.#stormEndsAt
  }

  async pause(mostMs: number): Promise<void> {
    const ms = this.dice.between(0, mostMs)
    await new Promise<void>((resolve) => void this.clock.after(ms, resolve))
  }

  /** What must be true at any time. */
  check(): void {
    for (const hold of this.#holds.keys()) {
      if (!hold.isLive) this.#holds.delete(hold)
      else assert(this.redis.isHeldBy(hold.lockName, hold.holder), `${hold.holder} believes to hold ${hold.lockName}`)
    }
    for (const lockName of LOCKS) {
      const holds = [...this.#holds].filter(([hold]) => hold.lockName === lockName)
      const owners = new Set(holds.map(([{ holder }, passes]) => `${holder}, passed on ${passes} times,`))
      assert(owners.size <= 1, `${[...owners].join(' and ')} hold ${lockName}`)
    }
  }

  /** Let time pass until all is over. */
  async run(tasks: readonly Promise<void>[], limitMs: number): Promise<void> {
    let isOver = false
    const over = Promise.all(tasks).finally(() => {
      isOver = true
    })
    over.catch(() => {})
    const limit = this.clock.now() + limitMs
    await this.clock.advance(0)
    while (!isOver) {
      assert(this.clock.now() <= limit && (await this.clock.step()), 'something never settles')
      this.check()
    }
    await over
  }

  /** Trouble that is not that of one command. */
  async makeTrouble(): Promise<void> {
    const { clock, dice } = this
    while (this.isStormy) {
      await this.pause(1_500)
      const link = dice.pick(this.links)
      const trouble = dice.pick<() => void>([
        () => link.reconnect(),
        () => this.redis.forgetScripts(),
        () => clock.block(dice.between(1, dice.chance(0.8) ? 500 : 2 * LEASE_MS)),
        () => {
          link.port.isDeaf = true
        },
        () => link.port.resubscribe(),
        () => link.goDown(dice.between(1, 2 * LEASE_MS)),
      ])
      trouble()
    }
    for (const { port } of this.links) port.resubscribe()
  }

  /** In some lives one of the clients is closed in the middle of it. */
  async closeEarly(): Promise<void> {
    const { dice } = this
    if (!dice.chance(0.2)) return
    await this.pause(STORM_MS)
    const client = dice.pick(this.clients)
    this.closed.add(client)
    await client.close({ drainMs: dice.between(0, 1_000) })
  }

  /** A caller that uses locks again and again, in every way. */
  async useLocks(client: Client): Promise<void> {
    while (this.isStormy) {
      await this.pause(500)
      await this.#tolerate(this.#useLock(client, this.lock(client, this.dice.pick(LOCKS))))
    }
  }

  async #useLock(client: Client, lock: Lock): Promise<void> {
    const { dice } = this
    const work = async (hold: Hold): Promise<void> => {
      await this.#workWith(hold)
      if (dice.chance(0.3)) await this.#useLock(client, lock)
      if (dice.chance(0.1)) await hold.isHeld()
      if (dice.chance(0.1)) throw new FakeReplyError('the body fails')
    }
    const use = dice.pick<() => Promise<unknown>>([
      () => lock.withLock(this.#options(), work),
      () => lock.tryWithLock(this.#options(), work),
      () => this.#useByHand(lock),
      () => client.runInScope(() => this.#useAsJava(lock)),
    ])
    await use()
  }

  /** Holds that are passed by hand, re-entered by hand, and handed over. */
  async #useByHand(lock: Lock): Promise<void> {
    const { dice } = this
    const hold = dice.chance(0.5) ? await lock.lock(this.#options()) : await lock.tryLock(this.#options())
    if (!hold) return
    await this.#workWith(hold)
    const inner = Array.from({ length: dice.between(0, 2) }, async () => {
      const again = await this.#tolerate(lock.tryLock({ ...this.#options(), within: hold }))
      if (again) await this.#workWith(again)
      await this.#tolerate(again?.unlock())
    })
    if (dice.chance(0.5)) await Promise.all(inner)
    if (this.#kind !== writeLock && dice.chance(0.1)) {
      const holder = hold.handOver()
      const adopted = await this.lock(dice.pick(this.clients), lock.name).adopt(holder)
      await this.#workWith(adopted)
      await adopted.unlock()
    }
    await Promise.all([...inner, hold.unlock(), dice.chance(0.1) ? hold.unlock() : undefined])
  }

  /** As code ported from Java: again and again as one owner, whatever became of the last time. */
  async #useAsJava(lock: Lock): Promise<void> {
    const { dice } = this
    let last: Hold | undefined
    const rounds = async (): Promise<void> => {
      for (let round = dice.between(1, 3); round > 0; round--) {
        const hold = await this.#tolerate(lock.lock(this.#options()))
        if (!hold) continue
        await this.#tolerate(last?.unlock()) // too late, or once more: it must not end the new one
        last = hold
        await this.#workWith(hold)
        await this.#tolerate(dice.chance(0.5) ? hold.unlock() : lock.unlock())
      }
    }
    const sibling = dice.pick<() => unknown>([
      () => {},
      () => rounds(),
      () => this.#tolerate(lock.withLock(this.#options(), (hold) => this.#workWith(hold))),
    ])
    await Promise.all([rounds(), this.pause(300).then(sibling)])
    await this.#tolerate(last?.unlock())
  }

  async #workWith(hold: Hold): Promise<void> {
    this.grants++
    const { handOffs } = hold.lease as Lease
    if (handOffs > 0 && hold.count === 1) this.handOffs++
    this.#holds.set(hold, handOffs)
    await this.pause(this.dice.chance(0.9) ? 400 : 2 * LEASE_MS)
  }

  /** The outcome, or undefined if it is an error that is documented for users. */
  async #tolerate<T>(outcome: Promise<T> | undefined): Promise<T | undefined> {
    try {
      return await outcome
    } catch (error) {
      if (error instanceof LockError || error instanceof FakeReplyError || error === 'aborted') return undefined
      throw error
    }
  }

  #options(): LockOptions {
    const { dice } = this
    const options: LockOptions = {}
    if (dice.chance(0.4)) options.leaseTimeMs = dice.between(100, LONGEST_LEASE_MS)
    if (dice.chance(0.5)) options.waitTimeMs = dice.between(0, 3_000)
    if (dice.chance(0.1)) options.maxHoldMs = dice.between(50, 1_000)
    if (dice.chance(0.2)) {
      const controller = new AbortController()
      options.signal = controller.signal
      this.clock.after(dice.between(0, 1_000), () => controller.abort('aborted'))
    }
    return options
  }
}

async function live(seed: number): Promise<World> {
  const world = new World(seed)
  const { clients, clock, links, redis } = world
  const tasks = clients.flatMap((client) => Array.from({ length: TASKS_PER_CLIENT }, () => world.useLocks(client)))
  await world.run([...tasks, world.makeTrouble(), world.closeEarly()], STORM_MS + 60_000)

  // A hold that no client knows of ends with its lease; a command without a reply, with the command time-out.
  await clock.advance(LONGEST_LEASE_MS + 2 * COMMAND_TIMEOUT_MS)
  const held = redis.keys.map((key) => `${key} by ${JSON.stringify(redis.holders(key))} for ${redis.pttl(key)} ms`)
  assert.deepEqual(held, [], `nothing is held forever: ${held.join()}`)
  assert.equal(clock.pending, 0, 'no timer is left')
  const open = clients.filter((client) => !world.closed.has(client))
  await world.run(
    open.map(async (client) => {
      // a place in a fair queue that a late request took costs the next one a second
      for (const name of LOCKS) await (await world.lock(client, name).lock({ waitTimeMs: 3_000 })).unlock()
    }),
    10_000,
  )
  await world.run(
    clients.map((client) => client.close()),
    10_000,
  )
  await clock.advance(5) // for messages on their way
  assert.equal(clock.pending, 0, 'no timer is left after close()')
  for (const { port } of links) assert.deepEqual(port.channels, [], 'no subscription is left')
  return world
}

interface Report {
  readonly grants: number
  readonly handOffs: number
  readonly losses: number
  /** What went wrong in which life. */
  readonly failure?: string
}

async function liveAll(seeds: readonly number[]): Promise<Report> {
  let grants = 0
  let handOffs = 0
  let losses = 0
  for (const seed of seeds) {
    try {
      const world = await live(seed)
      grants += world.grants
      handOffs += world.handOffs
      losses += world.losses
    } catch (error) {
      return {
        grants,
        handOffs,
        losses,
        failure: `seed ${seed}: ${error instanceof Error ? error.stack : String(error)}`,
      }
    }
  }
  return { grants, handOffs, losses }
}

if (isMainThread) {
  const only = process.env['SIMULATION_SEED']
  const seeds = only ? [Number(only)] : Array.from({ length: LIVES }, (_, n) => n + 1)
  test(`no two owners hold a lock at once, and every call settles, in ${seeds.length} simulated runs`, async (t) => {
    // In a thread of its own, where the test runner does not follow each promise: that more than halves the time.
    const worker = new Worker(new URL(import.meta.url), { workerData: seeds })
    const [report] = (await once(worker, 'message')) as [Report]
    t.diagnostic(`${report.grants} holds, ${report.handOffs} of them passed on, ${report.losses} lost`)
    assert.equal(report.failure, undefined)
    const isStorm = report.losses > 0 && report.grants > 3 * report.losses
    assert(isStorm || only, 'the storm is neither too weak nor too strong')
    assert(report.handOffs > report.grants / 50 || only, 'locks go from caller to caller')
  })
} else {
  parentPort?.postMessage(await liveAll(workerData as number[]))
}

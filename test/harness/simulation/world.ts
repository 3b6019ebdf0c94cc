import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Client } from '../../../src/client.js'
import type { Clock } from '../../../src/util/clock.js'
import * as threadClient from '../../../src/watchdog/thread-client.js'
import { Dice } from '../../support/dice.js'
import { FakeRedis } from '../../support/fakes/fake-redis.js'
import { Beliefs } from './beliefs.js'
import { LateCopies } from './late-copies.js'
import { LifeClock } from './life-clock.js'
import { COMMAND_TIMEOUT_MS, Link, type Weather } from './link.js'
import type { FaultName, Plan, TroubleName } from './plan.js'
import { ProcessClock } from './process-clock.js'
import { newThreadFile, threadsOf } from './process-thread.js'
import { ReplicaSet } from './replica-set.js'
import type { Workload } from './workload.js'

export const LEASE_MS = 3_000
export const LONGEST_LEASE_MS = 5_000
/** The time of day at Redis when a life begins, epoch ms: operations are refused that are far from it. */
const EPOCH = Date.UTC(2026, 0, 1)
/** The longest that a late copy of a command is on its way. */
const LATE_MS = 3 * COMMAND_TIMEOUT_MS
/** How much faster or slower than the servers' clocks that of a process may be: what the deadlines of holds allow for. */
const MAX_DRIFT = 0.01
const HOUR_MS = 3_600_000
/** A shorter suspension of a machine goes unnoticed. */
const LEAST_SUSPENSION_MS = 600

/** The randomness of a client. */
class Luck extends Dice {
  #isNew = true

  /** The first one is the client's id: every other client is taken for one of Redisson by those that wait. */
  override uuid(): string {
    const isId = this.#isNew
    this.#isNew = false
    return isId && this.chance(0.5) ? `client-${this.between(0, 2 ** 32)}` : super.uuid()
  }
}

/** A process with a client for each server. */
export class Process {
  readonly name: string
  readonly clock: ProcessClock
  /** Of its clients, then of its watchdog thread. */
  readonly links: Link[] = []
  readonly clients: Client[] = []
  isClosed = false
  readonly #dice: Dice
  #latest: Client | undefined
  readonly #world: World
  readonly #servers: readonly (FakeRedis | ReplicaSet)[]

  constructor(world: World, index: number, servers: readonly (FakeRedis | ReplicaSet)[]) {
    this.name = `p${index + 1}`
    this.#world = world
    this.#servers = servers
    const dice = world.diceOf(this.name)
    const drift = world.plan.troubles.includes('clocks drift') ? MAX_DRIFT * (2 * dice.fraction() - 1) : 0
    this.clock = new ProcessClock(world.clock, 1 + drift)
    this.#dice = dice
    for (const [at] of servers.entries()) this.#open(at)
  }

  /** Of locks on one server. */
  get client(): Client {
    return (this.#latest ?? this.clients[0]) as Client
  }

  /** Another client, on a connection of its own, which knows nothing yet. The one before goes on with what it has. */
  openAnother(): void {
    if (!this.isClosed) this.#latest = this.#open(0)
  }

  #open(at: number): Client {
    const world = this.#world
    const link = this.#newLink(this.clock, at)
    this.links.push(link)
    const dice = this.#dice
    const options = {
      lockWatchdogTimeoutMs: LEASE_MS,
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      slavesSyncTimeoutMs: 300,
      maxHandOffs: dice.pick([0, 3, 1_000]),
      maxHandOffMs: dice.pick([50, 1_000, 2 * LEASE_MS]),
    }
    const random = new Luck(world.seedOf(`${this.name} client ${this.clients.length}`))
    const client = new Client(link.forClient, options, { clock: this.clock, random })
    client.on('lost', ({ hold, error }) => {
      world.losses++
      world.note(`${this.name} lost ${hold.lockName}: ${error.reason}`)
    })
    client.on('warning', () => {})
    this.clients.push(client)
    return client
  }

  /** Lets a thread renew what its clients hold while its event loop is blocked. */
  async startThread(): Promise<void> {
    const world = this.#world
    if (!world.plan.troubles.includes('watchdog thread')) return
    const random = world.diceOf(`${this.name} thread`)
    const seams = threadsOf(this.clock, (clock) => ({
      random,
      open: async (connection) => {
        const link = this.#newLink(clock, Number(connection))
        this.links.push(link)
        return link.forClient
      },
    }))
    const terms = { maxBlockMs: 4 * LEASE_MS, file: newThreadFile() }
    const protect = (client: Client, at: number): Promise<void> =>
      client.protect(threadClient, { ...terms, connection: String(at) }, seams)
    await Promise.all(this.clients.map(protect))
  }

  #newLink(clock: Clock, at: number): Link {
    const world = this.#world
    const name = `${this.name} link ${clock === this.clock ? this.clients.length : `of the thread ${at}`}`
    const server = this.#servers[at] as FakeRedis | ReplicaSet
    return new Link(clock, server, world.diceOf(name), world.diceOf(`${name} copies`), world)
  }

  async close(drainMs = 0): Promise<void> {
    this.isClosed = true
    await Promise.all(this.clients.map((client) => client.close({ drainMs })))
  }
}

/** Servers, and processes that use them, in virtual time. */
export class World implements Weather {
  readonly plan: Plan
  readonly clock = new LifeClock()
  readonly processes: readonly Process[]
  readonly beliefs: Beliefs
  readonly copies: LateCopies
  readonly #timeline: string[] | undefined
  readonly #servers: readonly FakeRedis[]
  readonly replicaSet: ReplicaSet | undefined
  /** What must not be. */
  #broken: Error | undefined
  #failover: Promise<void> | undefined
  #stormEndsAt = 0
  grants = 0
  handOffs = 0
  losses = 0
  troubles = 0
  failovers = 0

  /** @param timeline  gets a line for everything that happens */
  constructor(
    plan: Plan,
    workload: Pick<Workload, 'servers' | 'limits' | 'resourcesOf' | 'counters'>,
    timeline?: string[],
  ) {
    this.plan = plan
    this.#timeline = timeline
    this.beliefs = new Beliefs(() => this.clock.now(), workload.limits ?? new Map())
    this.copies = new LateCopies(this, workload.counters ?? [])
    const isCluster = plan.topology === 'cluster'
    this.replicaSet = plan.topology === 'without replicas' ? undefined : new ReplicaSet(this, EPOCH, isCluster)
    this.#servers = this.replicaSet
      ? []
      : Array.from({ length: workload.servers ?? 1 }, () => new FakeRedis(this.clock, EPOCH))
    const reached = this.replicaSet ? [this.replicaSet] : this.#servers
    this.processes = Array.from({ length: plan.processes }, (_, index) => new Process(this, index, reached))
    if (this.replicaSet) {
      this.replicaSet.onSwitch = () => {
        for (const { links } of this.processes) for (const { following } of links) following?.heardOfSwitch()
      }
      this.replicaSet.onIsolated = () => {
        const dice = this.diceOf(`another client ${this.clock.now()}`)
        if (!plan.troubles.includes('another client')) return
        for (const process of dice.some(this.processes)) {
          this.clock.after(dice.between(0, 2_500), () => {
            this.note(`⚡ ${process.name} opens another client`)
            process.openAnother()
          })
        }
      }
      this.replicaSet.onLostExtension = (keys, holders) => {
        for (const resource of new Set(keys.flatMap((key) => workload.resourcesOf?.(key) ?? [key])))
          this.beliefs.extendedInVain(resource, holders)
      }
    }
  }

  /** Those whose word counts. */
  get servers(): readonly FakeRedis[] {
    return this.replicaSet ? [this.replicaSet.master] : this.#servers
  }

  get redis(): FakeRedis {
    return this.servers[0] as FakeRedis
  }

  /** Each actor has its own, so that a life with fewer actors is the same for those that are left. */
  diceOf(actor: string): Dice {
    return new Dice(this.seedOf(actor))
  }

  seedOf(actor: string): number {
    return createHash('sha256').update(`${this.plan.seed} ${actor}`).digest().readUInt32LE()
  }

  get isStormy(): boolean {
    return this.clock.now() < this.#stormEndsAt
  }

  allows(fault: FaultName): boolean {
    return this.plan.faults.includes(fault)
  }

  get isNoted(): boolean {
    return this.#timeline !== undefined
  }

  note(text: string): void {
    this.#timeline?.push(`${String(Math.round(this.clock.now())).padStart(7)} ms  ${text}`)
  }

  async pause(clock: Pick<LifeClock, 'after'>, ms: number): Promise<void> {
    await new Promise<void>((resolve) => void clock.after(ms, resolve))
  }

  /** What must not be has happened: the life ends with its next step. */
  fail(message: string): void {
    this.#broken ??= new Error(message)
  }

  /** @throws {Error} what must not be has happened */
  check(): void {
    if (this.#broken) throw this.#broken
  }

  /** Lets time pass until all of it is over; checks after each step. */
  async run(tasks: readonly Promise<unknown>[], limitMs: number, check: () => void): Promise<void> {
    let isOver = false
    const over = Promise.all(tasks).finally(() => {
      isOver = true
    })
    over.catch(() => {})
    const limit = this.clock.now() + limitMs
    await this.clock.advance(0)
    while (!isOver) {
      assert(this.clock.now() <= limit && (await this.clock.step()), 'something never settles')
      check()
      this.check()
    }
    await over
  }

  /** From now on things go wrong. */
  beginStorm(): void {
    this.#stormEndsAt = this.clock.now() + this.plan.stormMs
  }

  /** Trouble that is not that of one command. */
  async makeTrouble(): Promise<void> {
    const dice = this.diceOf('trouble')
    while (this.isStormy) {
      await this.pause(this.clock, dice.between(0, 1_500))
      const process = dice.pick(this.processes)
      const link = dice.pick(process.links)
      const [shortMs, longMs] = [dice.between(1, 500), dice.between(1, 2 * LEASE_MS)]
      const ms = dice.chance(0.8) ? shortMs : longMs
      const silence = (): void => link.silence(dice.some([0, 1, 2]), longMs)
      const [name, act] = dice.pick<readonly [TroubleName, () => void]>([
        ['reconnect', () => link.reconnect()],
        ['scripts forgotten', () => dice.pick(this.servers).forgetScripts()],
        ['everything blocked', () => this.clock.block(ms)],
        ['process paused', () => process.clock.pause(ms)],
        ['event loop blocked', () => process.clock.blockEventLoop(longMs)],
        ['deaf', () => (link.port.isDeaf = true)],
        ['deaf', () => link.port.resubscribe()],
        ['cut off', () => link.goDown(longMs)],
        ['wall clock set', () => process.clock.setWall(dice.pick([-HOUR_MS, 0, HOUR_MS]))],
        ['machine suspended', () => process.clock.suspend(LEAST_SUSPENSION_MS + longMs / 2)],
        ...(this.replicaSet ? this.#troublesOf(this.replicaSet, shortMs, silence) : []),
      ])
      if (!this.plan.troubles.includes(name)) continue
      this.troubles++
      const suffix = name === 'everything blocked' || name.endsWith('paused') ? ` for ${ms} ms` : ''
      this.note(`⚡ ${name === 'everything blocked' ? '' : `${process.name} `}${name}${suffix}`)
      act()
    }
    await this.#failover
    for (const { links } of this.processes) for (const { port } of links) port.resubscribe()
    this.note('⚡ the storm is over')
  }

  #troublesOf(set: ReplicaSet, ms: number, silence: () => void): readonly (readonly [TroubleName, () => void])[] {
    return [
      ['observers silent', silence],
      ['replicas lag', () => set.lag(3 * ms)],
      [
        'failover',
        () => {
          this.#failover ??= set.failOver().then(() => {
            this.#failover = undefined
            this.failovers++
          })
        },
      ],
    ]
  }

  checkReplicas(): void {
    const [first, ...others] = this.replicaSet?.contents() ?? []
    for (const other of others) assert.deepEqual(other, first, 'every server has the same data in the end')
  }

  /** One of the processes closes in the middle of it. */
  async closeEarly(): Promise<void> {
    const dice = this.diceOf('closed early')
    if (!this.plan.troubles.includes('closed early')) return
    await this.pause(this.clock, dice.between(0, this.plan.stormMs))
    const process = dice.pick(this.processes)
    this.note(`⚡ ${process.name} closes`)
    await process.close(dice.between(0, 1_000))
  }

  /** Until when a holder may not know that its lock was freed by force, which has just ended. */
  get forcedUntil(): number {
    return this.clock.now() + LATE_MS
  }

  /** Commands, and when they were sent: the same for the same seed. */
  get digest(): string {
    const hash = createHash('sha256')
    for (const { links } of this.processes)
      for (const { sent } of links.flatMap(({ ports }) => ports)) {
        const lines = sent.map(({ name, keys, args, at }) => {
          // The record of a client has its process id in it, the audit the time of day.
          const isOfToday = name === 'SET' || name === 'forced/record'
          return JSON.stringify([name, keys, isOfToday ? [] : args, at])
        })
        hash.update(lines.join(''))
      }
    return hash.digest('hex')
  }
}

/** A contender process: `node contender.js <assignment>`; work.ts describes its protocol. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { LIBRARIES } from './libraries/index.js'
import type { Locker, Release } from './library.js'
import { cpuSince } from './machine.js'
import {
  type Assignment,
  type BlockResult,
  type BurstResult,
  type EnterResult,
  type HoldResult,
  type LoopResult,
  type SellResult,
  STOCK_KEY,
  type Work,
} from './work.js'

const SAMPLES = 20_000

interface Job {
  /** Starts, and resolves when all preparations are done. */
  start(): Promise<unknown> | unknown
  measure(ms: number): Promise<unknown>
}

class Loops implements Job {
  readonly #locker: Locker
  readonly #name: string
  readonly #work: Extract<Work, { do: 'loop' }>
  /** A semaphore or a read lock admits more than one. */
  readonly #atOnce: number
  #endsAt = Number.POSITIVE_INFINITY
  /** Otherwise they rest until they are measured. */
  #isRunning = false
  #sections: number[] = []
  #latencies: number[] = []
  #handOffs: number[] = []
  #overlaps = 0
  #refused = 0
  #inside = 0
  #waiting = 0
  #releasedAt = 0
  #end: (() => void) | undefined

  constructor(locker: Locker, name: string, work: Extract<Work, { do: 'loop' }>, atOnce: number) {
    this.#locker = locker
    this.#name = name
    this.#work = work
    this.#atOnce = work.each ? Number.POSITIVE_INFINITY : atOnce
  }

  async start(): Promise<void> {
    const { tasks, each } = this.#work
    this.#endsAt = Number.POSITIVE_INFINITY
    this.#isRunning = true
    const names = Array.from({ length: tasks }, (_, task) => (each ? `${this.#name}:${task}` : this.#name))
    for (const name of new Set(names)) await this.#locker.prepare?.(name)
    this.#sections = names.map(() => 0)
    Promise.all(names.map((name, task) => this.#loop(task, name))).then(() => this.#end?.(), fail)
  }

  async measure(ms: number): Promise<LoopResult> {
    if (!this.#isRunning) await this.start()
    this.#sections.fill(0)
    this.#latencies = []
    this.#handOffs = []
    this.#overlaps = 0
    this.#refused = 0
    const cpu = process.cpuUsage()
    this.#endsAt = performance.now() + ms
    // Some waiters may have to wait for a very long time after the end.
    await Promise.race([
      sleep(ms),
      new Promise<void>((resolve) => {
        this.#end = resolve
      }),
    ])
    this.#isRunning = false
    const sections = [...this.#sections]
    return {
      sections,
      latencies: sample(this.#latencies),
      handOffs: sample(this.#handOffs),
      overlaps: this.#overlaps,
      refused: this.#refused,
      cpuMs: cpuSince(cpu),
    }
  }

  /** Not async: an empty section costs nothing. */
  #section(sectionMs: number): Promise<void> | void {
    this.#waiting--
    const enteredAt = performance.now()
    if (this.#releasedAt > 0) this.#handOffs.push(enteredAt - this.#releasedAt)
    this.#releasedAt = 0
    if (++this.#inside > this.#atOnce) this.#overlaps++
    const leave = (): void => {
      this.#inside--
      if (this.#waiting > 0 && !this.#work.each) this.#releasedAt = performance.now()
    }
    if (sectionMs > 0) return sleep(sectionMs).then(leave)
    leave()
  }

  async #loop(task: number, name: string): Promise<void> {
    const { sectionMs, restMs } = this.#work
    const onRefused = () => this.#refused++
    // Otherwise all tasks would start at once, which is unrealistic.
    if (restMs > 0) await sleep(Math.random() * 2 * restMs)
    for (;;) {
      const askedAt = performance.now()
      if (askedAt >= this.#endsAt) return
      this.#waiting++
      if (this.#locker.run) {
        await this.#locker.run(name, () => this.#section(sectionMs))
      } else {
        const release = await acquire(this.#locker, name, onRefused)
        const inside = this.#section(sectionMs)
        if (inside !== undefined) await inside
        await release()
      }
      const now = performance.now()
      if (now < this.#endsAt) {
        this.#sections[task] = (this.#sections[task] ?? 0) + 1
        this.#latencies.push(now - askedAt)
      }
      if (restMs > 0) await sleep(Math.random() * 2 * restMs)
    }
  }
}

class Sale implements Job {
  readonly #locker: Locker
  readonly #name: string
  readonly #redis: Redis
  readonly #tasks: number
  #sold = 0
  #startedAt = 0
  #lastSoldAt = 0

  constructor(locker: Locker, name: string, url: string, tasks: number) {
    this.#locker = locker
    this.#name = name
    this.#redis = new Redis(url)
    this.#tasks = tasks
  }

  async start(): Promise<void> {
    await this.#redis.ping()
  }

  async measure(): Promise<SellResult> {
    this.#startedAt = now()
    await Promise.all(Array.from({ length: this.#tasks }, () => this.#sell()))
    return { sold: this.#sold, startedAt: this.#startedAt, lastSoldAt: this.#lastSoldAt }
  }

  async #sell(): Promise<void> {
    for (let isLeft = true; isLeft; ) {
      const release = await acquire(this.#locker, this.#name)
      const left = Number(await this.#redis.get(STOCK_KEY))
      isLeft = left > 0
      if (isLeft) {
        await this.#redis.set(STOCK_KEY, left - 1)
        this.#sold++
        this.#lastSoldAt = now()
      }
      await release()
    }
  }
}

const RESOLUTION_MS = 2
/** Opening all at once would measure something else. */
const AT_ONCE = 100

class Holder implements Job {
  readonly #locker: Locker
  readonly #name: string
  readonly #locks: number

  constructor(locker: Locker, name: string, locks: number) {
    this.#locker = locker
    this.#name = name
    this.#locks = locks
  }

  async start(): Promise<void> {
    let next = 0
    const take = async () => {
      while (next < this.#locks) await this.#locker.acquire(`${this.#name}:${next++}`)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, take))
  }

  async measure(ms: number): Promise<HoldResult> {
    const cpu = process.cpuUsage()
    await sleep(ms / 2)
    const cpuMs = 2 * cpuSince(cpu)
    // In the other half: sampling this closely costs as much CPU as renewing thousands of locks.
    const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    delay.enable()
    await sleep(ms / 2)
    delay.disable()
    return { cpuMs, loopDelayMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS) }
  }
}

class Blocked implements Job {
  readonly #locker: Locker
  readonly #name: string

  constructor(locker: Locker, name: string) {
    this.#locker = locker
    this.#name = name
  }

  async start(): Promise<void> {
    await this.#locker.acquire(this.#name)
  }

  async measure(ms: number): Promise<BlockResult> {
    const from = now()
    while (now() < from + ms);
    return { from, until: now() }
  }
}

class Intruder implements Job {
  readonly #locker: Locker
  readonly #name: string
  #enteredAt: number | null = null

  constructor(locker: Locker, name: string) {
    this.#locker = locker
    this.#name = name
  }

  start(): void {
    acquire(this.#locker, this.#name).then(() => {
      this.#enteredAt = now()
    }, fail)
  }

  async measure(ms: number): Promise<EnterResult> {
    await sleep(ms)
    return { enteredAt: this.#enteredAt }
  }
}

class Burst implements Job {
  readonly #locker: Locker
  readonly #names: readonly string[]

  constructor(locker: Locker, name: string, locks: number) {
    this.#locker = locker
    this.#names = Array.from({ length: locks }, (_, index) => `${name}:${index}`)
  }

  start(): void {}

  async measure(): Promise<BurstResult> {
    const startedAt = now()
    await Promise.all(
      this.#names.map(async (name) => {
        const release = await this.#locker.acquire(name)
        await release()
      }),
    )
    return { ms: now() - startedAt }
  }
}

/** Retries when the library gives up. */
async function acquire(locker: Locker, name: string, onRefused = () => {}): Promise<Release> {
  for (let tries = 1; ; tries++) {
    try {
      return await locker.acquire(name)
    } catch (error) {
      if (tries === 1_000) throw error
      onRefused()
    }
  }
}

/** Evenly spread. */
function sample(values: readonly number[]): number[] {
  const step = Math.ceil(values.length / SAMPLES)
  const sampled = step <= 1 ? values : values.filter((_, index) => index % step === 0)
  return sampled.map((value) => Math.round(value * 1_000) / 1_000)
}

/** The monotonic clock, which all processes share. */
function now(): number {
  return performance.timeOrigin + performance.now()
}

function say(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

function fail(error: unknown): never {
  console.error(error)
  process.exit(1)
}

function jobOf({ work, name, url, kind, permits }: Assignment, locker: Locker): Job {
  const atOnce = kind === 'read' ? Number.POSITIVE_INFINITY : kind === 'semaphore' || kind === 'permit' ? permits : 1
  if (work.do === 'loop') return new Loops(locker, name, work, atOnce)
  if (work.do === 'sell') return new Sale(locker, name, url, work.tasks)
  if (work.do === 'hold') return new Holder(locker, name, work.locks)
  if (work.do === 'block') return new Blocked(locker, name)
  if (work.do === 'burst') return new Burst(locker, name, work.locks)
  return new Intruder(locker, name)
}

async function main(): Promise<void> {
  const assignment = JSON.parse(process.argv.at(-1) ?? '') as Assignment
  const library = LIBRARIES.find(({ name }) => name === assignment.library)
  if (library?.open === undefined) throw new Error(`no such library: ${assignment.library}`)
  const job = jobOf(assignment, await library.open(assignment))
  say({ is: 'open' })
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, ms] = line.split(' ')
    if (order === 'start') {
      await job.start()
      say({ is: 'started' })
    } else {
      say(Object.assign({ is: 'measured' }, await job.measure(Number(ms))))
    }
  }
  process.exit(0)
}

process.on('unhandledRejection', fail)
main().catch(fail)

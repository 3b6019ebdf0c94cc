import type { ConnectOptions } from '../../../src/index.js'
import { type Child, spawnChild } from '../../support/processes/child.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import type { Random } from '../random.js'
import type { Entered, Found, Left, Served, Summary, Task } from './messages.js'
import { Network } from './network.js'
import type { Section } from './verdict.js'

type Message = Entered | Left | Found | Served | Summary

/** A worker opens its clients while servers and connections fail. */
const FOREVER_MS = 1_000_000_000

interface Running {
  readonly task: Task
  readonly child: Child
  readonly network: Network
  isFrozen: boolean
  isReady: boolean
  unserved: readonly string[] | undefined
  summary: Summary | undefined
  /** Resolves when all its messages are read. */
  listening: Promise<void>
  readonly inside: Map<string, Section[]>
}

interface Options {
  /** The ports that each worker reaches through proxies of its own, and how it connects then. */
  readonly ports: readonly number[]
  readonly leaseMs: number
  reach(network: Network): ConnectOptions
}

/** The processes of a run, each behind its own network; records what they report. */
export class Workers implements AsyncDisposable {
  readonly sections: Section[] = []
  readonly findings: Found[] = []
  readonly summaries: Summary[] = []
  /** What they wrote to stderr. */
  readonly warnings: string[] = []
  /** Sections that were entered, even if they are without a lock. */
  acquisitions = 0
  /** Writes that the record refused, as they had an old token. */
  refused = 0
  readonly leaseMs: number
  readonly #options: Options
  readonly #running: Running[] = []
  readonly #stuck: string[] = []
  #spawned = 0

  constructor(options: Options) {
    this.#options = options
    this.leaseMs = options.leaseMs
  }

  async start(task: Omit<Task, 'target' | 'leaseMs'>, network?: Network): Promise<void> {
    const own = network ?? (await Network.open(this.#options.ports))
    const seed = task.seed + 1_000 * this.#spawned++
    const whole: Task = { ...task, seed, leaseMs: this.leaseMs, target: this.#options.reach(own) }
    const child = spawnChild(new URL('./worker.js', import.meta.url), [JSON.stringify(whole)])
    const running: Running = {
      ...{
        task: whole,
        child,
        network: own,
        isFrozen: false,
        isReady: false,
        listening: Promise.resolve(),
        inside: new Map(),
      },
      ...{ unserved: undefined, summary: undefined },
    }
    running.listening = this.#listen(running)
    this.#running.push(running)
  }

  /** Resolves when all have acquired something, or after `limitMs`. */
  async ready(limitMs: number): Promise<void> {
    const endsAt = monotonicMs() + limitMs
    while (monotonicMs() < endsAt && this.#running.some(({ isReady }) => !isReady)) await sleep(20)
  }

  /** The network of one of them. */
  network(random: Random): Network {
    return (this.#running[random(this.#running.length)] as Running).network
  }

  /** Resets the connections of all of them to these servers. */
  cut(ports: readonly number[]): void {
    for (const { network } of this.#running) network.cut(ports)
  }

  /** SIGKILL; another process replaces it. */
  async killOne(random: Random): Promise<void> {
    const mortal = this.#running.filter(({ task, isFrozen }) => task.isMortal && !isFrozen)
    const victim = mortal[random(mortal.length)]
    if (!victim) return
    this.#running.splice(this.#running.indexOf(victim), 1)
    const killing = victim.child.stop()
    const killedAt = monotonicMs()
    await killing
    await victim.listening
    this.#endSections(victim, killedAt)
    await this.start(victim.task, victim.network)
  }

  /** SIGSTOP, and SIGCONT some time later. */
  async freezeOne(random: Random, ms: number): Promise<void> {
    const worker = this.#running[random(this.#running.length)] as Running
    if (worker.isFrozen) return
    worker.isFrozen = true
    worker.child.freeze()
    await sleep(ms)
    worker.child.thaw()
    worker.isFrozen = false
  }

  /** After the last fault: resolves when each worker was served with each kind, or after `limitMs`. */
  async prove(limitMs: number): Promise<void> {
    for (const running of this.#running) {
      running.unserved = undefined
      running.network.pass()
      running.child.send({ at: 'prove' })
    }
    const endsAt = monotonicMs() + limitMs
    while (monotonicMs() < endsAt && this.#running.some(({ unserved }) => unserved?.length !== 0)) await sleep(50)
    for (const { child, unserved } of this.#running) {
      if (unserved?.length === 0) continue
      const what = `process ${child.pid} was not served in ${limitMs / 1_000} s: ${unserved?.join(', ') ?? 'it is silent'}`
      this.#stuck.push(what)
    }
  }

  /** What was stuck after the last fault. */
  get stuck(): readonly string[] {
    return this.#stuck
  }

  /** Lets all of them end, and collects their final reports. */
  async end(limitMs: number): Promise<void> {
    for (const { child } of this.#running) child.send({ at: 'end' })
    await Promise.all(this.#running.map((running) => this.#ended(running, limitMs)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#running.map(async ({ child, network }) => {
        await child.stop()
        await network[Symbol.asyncDispose]()
      }),
    )
  }

  async #ended(running: Running, limitMs: number): Promise<void> {
    const { child } = running
    const isOver = await Promise.race([running.listening.then(() => true), sleep(limitMs).then(() => false)])
    if (!isOver) this.#stuck.push(`process ${child.pid} did not end`)
    if (!isOver) await child.stop()
    this.#endSections(running, monotonicMs())
    const { stderr } = child
    if (stderr.trim() !== '') this.warnings.push(`process ${child.pid}: ${stderr.trim().slice(0, 500)}`)
    for (const name of running.summary?.pending ?? []) this.#stuck.push(`process ${child.pid}: ${name} did not settle`)
  }

  /** Reads all messages of a worker, until it ends. */
  async #listen(running: Running): Promise<void> {
    const { child, inside } = running
    for (;;) {
      const message = await child.nextMessage<Message>(() => true, FOREVER_MS).catch(() => undefined)
      if (!message) return
      if (message.at === 'enter') {
        running.isReady = true
        inside.set(message.id, this.#enter(message, child.pid ?? 0))
      }
      if (message.at === 'leave') this.#leave(inside, message)
      if (message.at === 'finding') this.findings.push(message)
      if (message.at === 'served') running.unserved = message.unserved
      if (message.at === 'summary') {
        running.summary = message
        this.summaries.push(message)
        child.endCommands()
      }
    }
  }

  /** One per lock, until further notice for as long as the lease certainly lasts. */
  #enter({ kind, locks, from, validUntil, isShared, token }: Entered, worker: number): Section[] {
    const sections = locks.map(
      (lock): Section => ({
        ...{ kind, lock, worker, from, to: validUntil, isShared: isShared === true },
        ...(token ? { token } : {}),
      }),
    )
    this.sections.push(...sections)
    this.acquisitions++
    return sections
  }

  #leave(inside: Map<string, Section[]>, { id, to, access }: Left): void {
    for (const [at, section] of inside.get(id)?.entries() ?? []) {
      section.to = to
      if (!access) continue
      const { isAccepted, isCertain, isOverwriting } = access
      section.access = { first: access.first[at] ?? 0, last: access.last[at], isAccepted, isCertain, isOverwriting }
    }
    if (access && !access.isAccepted) this.refused++
    inside.delete(id)
  }

  /** A process that has ended holds nothing. */
  #endSections({ inside }: Running, at: number): void {
    for (const sections of inside.values()) for (const section of sections) section.to = Math.min(section.to, at)
    inside.clear()
  }
}

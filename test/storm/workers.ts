import { monotonicMs } from '../support/beliefs.js'
import { type Child, spawnChild } from '../support/child.js'
import { startProxy, type TcpProxy } from '../support/tcp-proxy.js'
import { sleep } from '../support/wait-until.js'
import type { Entered, Left, Summary, Task } from './messages.js'
import type { Section } from './verdict.js'

type Random = (n: number) => number
type Message = Entered | Left | Summary | { readonly at: 'ready' }

const OPEN_MS = 60_000
/** More than a worker needs to end its sections and close. */
const END_MS = 120_000

interface Running {
  readonly task: Task
  readonly child: Child
  readonly proxy: TcpProxy
  isFrozen: boolean
  /** Resolves when all its messages are read. */
  listening: Promise<void>
}

/** The processes of a storm, each behind its own proxy; records what they report. */
export class Workers implements AsyncDisposable {
  readonly sections: Section[] = []
  readonly summaries: Summary[] = []
  readonly failures: string[] = []
  readonly #serverPort: number
  readonly #running: Running[] = []
  #spawned = 0

  constructor(serverPort: number) {
    this.#serverPort = serverPort
  }

  async start(task: Omit<Task, 'url'>, proxy?: TcpProxy): Promise<void> {
    const mine = proxy ?? (await startProxy(this.#serverPort))
    const whole: Task = { ...task, url: mine.url, seed: task.seed + 1_000 * this.#spawned++ }
    const child = spawnChild(new URL('./worker.js', import.meta.url), [JSON.stringify(whole)])
    const running: Running = { task: whole, child, proxy: mine, isFrozen: false, listening: Promise.resolve() }
    running.listening = this.#listen(running)
    this.#running.push(running)
  }

  /** The network of one of them. */
  proxy(random: Random): TcpProxy {
    return (this.#running[random(this.#running.length)] as Running).proxy
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
    await this.start(victim.task, victim.proxy)
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

  /** After the last fault: lets all of them end, and collects their final reports. */
  async end(): Promise<void> {
    for (const { proxy, child } of this.#running) {
      proxy.pass()
      child.send({ at: 'end' })
    }
    await Promise.all(
      this.#running.map(async (running) => {
        const isOver = await Promise.race([running.listening.then(() => true), sleep(END_MS).then(() => false)])
        if (!isOver) this.failures.push(`worker ${running.child.pid} did not end`)
        if (!isOver) await running.child.stop()
        this.#endSections(running, monotonicMs())
        const { stderr } = running.child
        if (stderr.trim() !== '') this.failures.push(`worker ${running.child.pid}: ${stderr.trim().slice(0, 500)}`)
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.map(async ({ child, proxy }) => await Promise.all([child.stop(), proxy.stop()])))
  }

  /** Reads all messages of a worker, until it ends. */
  async #listen({ child }: Running): Promise<void> {
    const inside = new Map<string, Section[]>()
    this.#inside.set(child, inside)
    const timeoutMs = OPEN_MS + END_MS
    for (;;) {
      const message = await child.nextMessage<Message>(() => true, timeoutMs * 1_000).catch(() => undefined)
      if (!message) return
      if (message.at === 'enter') inside.set(message.id, this.#enter(message))
      if (message.at === 'leave') {
        for (const section of inside.get(message.id) ?? []) section.to = message.to
        inside.delete(message.id)
      }
      if (message.at === 'summary') {
        this.summaries.push(message)
        child.endCommands()
      }
    }
  }

  readonly #inside = new Map<Child, Map<string, Section[]>>()

  /** One per lock, until further notice for as long as the lease certainly lasts. */
  #enter({ kind, locks, from, validUntil, isShared, token }: Entered): Section[] {
    const sections = locks.map(
      (lock): Section => ({
        kind,
        lock,
        from,
        to: validUntil,
        isShared: isShared === true,
        ...(token ? { token } : {}),
      }),
    )
    this.sections.push(...sections)
    return sections
  }

  /** A process that has ended holds nothing. */
  #endSections({ child }: Running, at: number): void {
    for (const sections of this.#inside.get(child)?.values() ?? []) {
      for (const section of sections) section.to = Math.min(section.to, at)
    }
    this.#inside.delete(child)
  }
}

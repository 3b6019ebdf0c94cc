import { kindOf } from '../../interop/kinds.js'
import { type JavaOwner, long, MILLISECONDS, type Redisson, text } from '../../interop/redisson.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { type Place, startRedisson } from '../place.js'
import type { Random } from '../random.js'
import { countIn, type Tally } from '../tally.js'
import { PERMITS } from './messages.js'
import type { Topology } from './topology.js'
import type { Section } from './verdict.js'

const THREADS = 4
const WATCHDOG_MS = 10_000
const LEASE_MS = 5_000
const WAIT_MS = 2_500
const PROVE_MS = 30_000

/** Takes something on one Java thread: how to release it again, or undefined if it was not granted in time. */
type Take = (thread: string, waitMs: number) => Promise<Taken | undefined>

interface Taken {
  readonly token?: string
  release(): Promise<unknown>
}

interface Kind {
  readonly name: string
  readonly lock: string
  readonly isShared?: boolean
  readonly take: Take
}

/** A JVM with the real Redisson whose threads take the same locks. Only servers fail around it, not its connections. */
export class JavaWorker implements AsyncDisposable {
  readonly sections: Section[] = []
  readonly errors: Tally = {}
  readonly #redisson: Redisson
  readonly #place: Place
  readonly #kinds: readonly Kind[]
  readonly #random: Random
  #running: Promise<void>[] = []
  #isOver = false
  #threads = 0
  #failures = 0

  static async start(topology: Topology, random: Random): Promise<JavaWorker> {
    const place = topology.openPlace()
    const redisson = await startRedisson(place, WATCHDOG_MS)
    return new JavaWorker(redisson, place, await kindsOf(redisson), random)
  }

  private constructor(redisson: Redisson, place: Place, kinds: readonly Kind[], random: Random) {
    this.#redisson = redisson
    this.#place = place
    this.#kinds = kinds
    this.#random = random
  }

  begin(): void {
    this.#running = Array.from({ length: THREADS }, () => this.#run())
  }

  #newThread(): string {
    return `thread-${this.#threads++}`
  }

  /** After the last fault. @returns the kinds with which it was not served */
  async prove(): Promise<string[]> {
    this.#isOver = true
    await Promise.all(this.#running)
    const unserved: string[] = []
    for (const kind of this.#kinds) {
      const isServed = await this.#enter(kind, 'prover', PROVE_MS)
      if (!isServed) unserved.push(`Java was not served with ${kind.name} in ${PROVE_MS / 1_000} s`)
    }
    return unserved
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#redisson.jvm.stop()
    this.#place.file?.remove()
  }

  async #run(): Promise<void> {
    let thread = this.#newThread()
    while (!this.#isOver) {
      const failures = this.#failures
      await this.#enter(this.#kinds[this.#random(this.#kinds.length)] as Kind, thread, WAIT_MS)
      // What it could not release it would enter again, and so hold it for good.
      if (this.#failures > failures) thread = this.#newThread()
      await sleep(this.#random(20))
    }
  }

  async #enter({ name, lock, isShared = false, take }: Kind, thread: string, waitMs: number): Promise<boolean> {
    // Its lease begins at a server after this.
    const askedAt = monotonicMs()
    try {
      const taken = await take(thread, waitMs)
      if (!taken) return false
      const from = monotonicMs()
      await sleep(this.#random(20))
      const to = Math.min(monotonicMs(), askedAt + LEASE_MS)
      const { token } = taken
      if (from < to)
        this.sections.push({ kind: name, lock, worker: 0, from, to, isShared, ...(token ? { token } : {}) })
      await taken.release()
      return true
    } catch (error) {
      const { className = 'Error' } = error as { className?: string }
      this.#failures++
      countIn(this.errors, `${name}: ${className.split('.').at(-1)}`)
      return false
    }
  }
}

async function kindsOf(redisson: Redisson): Promise<Kind[]> {
  const lock = async (kind: string, key: string): Promise<Kind> => {
    const { java, shared } = kindOf(kind)
    const javaLock = await java(redisson, key)
    const take: Take = async (thread, waitMs) => await taken(javaLock.by(thread), waitMs)
    return { name: `java ${kind}`, lock: key, isShared: shared !== undefined, take }
  }
  return [
    await lock('lock', 'chaos:plain:1'),
    await lock('lock', 'chaos:plain:2'),
    await lock('fair', 'chaos:fair:1'),
    await lock('spin', 'chaos:spin'),
    await lock('read', 'chaos:read-write:1'),
    await lock('write', 'chaos:read-write:1'),
    await fenced(redisson),
    await permits(redisson),
  ]
}

async function taken(owner: JavaOwner, waitMs: number): Promise<Taken | undefined> {
  if (!(await owner.tryLock(waitMs, LEASE_MS))) return undefined
  return { release: async () => await owner.unlock() }
}

async function fenced(redisson: Redisson): Promise<Kind> {
  const lock = await redisson.lock('getFencedLock', text('chaos:fenced'))
  const take: Take = async (thread, waitMs) => {
    const owner = lock.by(thread)
    const token = await owner.call('tryLockAndGetToken', long(waitMs), long(LEASE_MS), MILLISECONDS)
    if (token === null) return undefined
    return { token: String(token), release: async () => await owner.unlock() }
  }
  return { name: 'java fenced', lock: 'chaos:fenced', take }
}

async function permits(redisson: Redisson): Promise<Kind> {
  const semaphore = await redisson.get('getPermitExpirableSemaphore', text(PERMITS))
  const take: Take = async (thread, waitMs) => {
    const id = await semaphore.call(thread, 'tryAcquire', long(waitMs), long(LEASE_MS), MILLISECONDS)
    if (id === null) return undefined
    return { release: async () => await semaphore.call(thread, 'release', text(String(id))) }
  }
  return { name: 'java permits', lock: PERMITS, isShared: true, take }
}

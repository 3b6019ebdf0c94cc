import { join } from 'node:path'
import { APP } from '../failover/ways.js'
import { type JavaOwner, Jvm, long, MILLISECONDS, type Redisson, text } from '../interop/redisson.js'
import { listed, RedissonFile } from '../interop/redisson-file.js'
import { monotonicMs } from '../support/beliefs.js'
import { sleep } from '../support/wait-until.js'
import { PERMITS } from './messages.js'
import type { Place, Random, Topology } from './topology.js'
import type { Section } from './verdict.js'

const VERSION = '4.7.0'
const BUILT = join('.cache', 'interop')
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
  readonly errors: Record<string, number> = {}
  readonly #jvm: Jvm
  readonly #file: RedissonFile | undefined
  readonly #kinds: readonly Kind[]
  readonly #random: Random
  #running: Promise<void>[] = []
  #isOver = false
  #threads = 0
  #failures = 0

  static async start({ place }: Topology, random: Random): Promise<JavaWorker> {
    const jvm = await Jvm.start(BUILT, VERSION)
    const file = fileOf(place)
    const redisson = file ? await jvm.openFile(file.path) : await jvm.open(place.urls[0] ?? '', WATCHDOG_MS)
    return new JavaWorker(jvm, file, await kindsOf(redisson), random)
  }

  private constructor(jvm: Jvm, file: RedissonFile | undefined, kinds: readonly Kind[], random: Random) {
    this.#jvm = jvm
    this.#file = file
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
    await this.#jvm.stop()
    this.#file?.remove()
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
      const what = `${name}: ${className.split('.').at(-1)}`
      this.errors[what] = (this.errors[what] ?? 0) + 1
      return false
    }
  }
}

/** A file with the addresses that its servers have; for one server its URL is enough. */
function fileOf({ section, urls, masterName }: Place): RedissonFile | undefined {
  const own = `  username: ${APP.username}\n  password: ${APP.password}`
  if (section === 'clusterServersConfig') return new RedissonFile(section, `  nodeAddresses:\n${listed(urls)}\n${own}`)
  if (section !== 'sentinelServersConfig') return undefined
  const sentinels = `  sentinelAddresses:\n${listed(urls)}\n  masterName: ${masterName}\n  checkSentinelsList: false`
  return new RedissonFile(section, `${sentinels}\n${own}`)
}

async function kindsOf(redisson: Redisson): Promise<Kind[]> {
  const lock = async (
    name: string,
    key: string,
    getters: string | readonly string[],
    isShared = false,
  ): Promise<Kind> => {
    const javaLock = await redisson.lock(getters, text(key))
    const take: Take = async (thread, waitMs) => await taken(javaLock.by(thread), waitMs)
    return { name: `java ${name}`, lock: key, isShared, take }
  }
  return [
    await lock('plain', 'chaos:plain:1', 'getLock'),
    await lock('plain', 'chaos:plain:2', 'getLock'),
    await lock('fair', 'chaos:fair:1', 'getFairLock'),
    await lock('spin', 'chaos:spin', 'getSpinLock'),
    await lock('read', 'chaos:read-write:1', ['getReadWriteLock', 'readLock'], true),
    await lock('write', 'chaos:read-write:1', ['getReadWriteLock', 'writeLock']),
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

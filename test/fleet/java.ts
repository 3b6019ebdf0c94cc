import { join } from 'node:path'
import { Jvm, type Redisson, text } from '../interop/redisson.js'
import type { Said, SaidHold } from './messages.js'
import type { Place } from './place.js'

const VERSION = '4.7.0'
const BUILT = join('.cache', 'interop')
const WATCHDOG_MS = 30_000
const HELD = [
  { getters: ['getLock'] },
  { getters: ['getFairLock'] },
  { getters: ['getFencedLock'] },
  { getters: ['getSpinLock'] },
  { getters: ['getReadWriteLock', 'readLock'], mode: 'read' },
  { getters: ['getReadWriteLock', 'writeLock'], mode: 'write' },
] as const

/** A JVM with the real Redisson. */
export class JavaSide implements AsyncDisposable {
  readonly #jvm: Jvm
  readonly #redisson: Redisson

  static async start({ url, file }: Place): Promise<JavaSide> {
    const jvm = await Jvm.start(BUILT, VERSION)
    return new JavaSide(jvm, file ? await jvm.openFile(file.path) : await jvm.open(url, WATCHDOG_MS))
  }

  private constructor(jvm: Jvm, redisson: Redisson) {
    this.#jvm = jvm
    this.#redisson = redisson
  }

  /**
   * Takes locks, and waits for two of Holdfast.
   * @param plain  a lock, of whose waiter only its listener can be seen
   * @param fair  a fair lock, in whose queue its waiter is
   */
  async take(plain: string, fair: string): Promise<Said> {
    const waits: Said['waits'] = [
      { ...NO_WAIT, name: plain },
      { ...NO_WAIT, name: fair, holder: await this.#waitFor('getFairLock', fair) },
    ]
    await this.#waitFor('getLock', plain)
    return { clientId: this.#redisson.id, holds: await this.#holdAll(), waits }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#jvm.stop()
  }

  async #holdAll(): Promise<SaidHold[]> {
    const holds: SaidHold[] = []
    for (const { getters, ...mode } of HELD) {
      const name = `agree:java:${getters.join(':')}`
      const owner = (await this.#redisson.lock(getters, text(name))).by('holder')
      await owner.lock()
      const [holder = ''] = await owner.holders()
      const suffix = 'mode' in mode && mode.mode === 'write' ? ':write' : ''
      holds.push({ name, holder: holder + suffix, count: 1, label: '', askedAt: 0, grantedAt: 0, ...mode })
    }
    return holds
  }

  /** @returns who it will be */
  async #waitFor(getter: string, name: string): Promise<string> {
    const owner = (await this.#redisson.lock(getter, text(name))).by(`waiter of ${getter}`)
    const [holder = ''] = await owner.holders()
    owner.lock().catch(() => {}) // the JVM ends while it waits
    return holder
  }
}

const NO_WAIT = { label: '', askedAt: 0, waitTimeMs: 0, chain: [] }

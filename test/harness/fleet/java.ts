import { KINDS } from '../../../src/locks/kinds/table.js'
import { kindOf } from '../../interop/kinds.js'
import { type Redisson, text } from '../../interop/redisson.js'
import { type Place, startRedisson } from '../place.js'
import type { Said, SaidHold } from './messages.js'

const WATCHDOG_MS = 30_000
const HELD = ['lock', 'fair', 'fenced', 'spin', 'read', 'write'] as const

/** A JVM with the real Redisson. */
export class JavaSide implements AsyncDisposable {
  readonly #redisson: Redisson

  static async start(place: Place): Promise<JavaSide> {
    return new JavaSide(await startRedisson(place, WATCHDOG_MS))
  }

  private constructor(redisson: Redisson) {
    this.#redisson = redisson
  }

  /** How it is known: by its id alone. */
  get about(): Said {
    return { clientId: this.#redisson.id, name: '', host: '', holds: [], waits: [] }
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
    return { ...this.about, holds: await this.#holdAll(), waits }
  }

  /** Takes a fair lock on a thread that then waits for another one. */
  async nest(outer: string, inner: string): Promise<{ holder: string; cross(): Promise<void> }> {
    const [first, second] = await Promise.all(
      [outer, inner].map(async (name) => (await this.#redisson.lock('getFairLock', text(name))).by('nests')),
    )
    if (!first || !second) throw new Error('there are two locks')
    await first.lock()
    const [holder = ''] = await first.holders()
    const cross = async (): Promise<void> => {
      await second.lock()
      await second.unlock()
      await first.unlock()
    }
    return { holder, cross }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#redisson.jvm.stop()
  }

  async #holdAll(): Promise<SaidHold[]> {
    const holds: SaidHold[] = []
    for (const id of HELD) {
      const name = `agree:java:${id}`
      const owner = (await kindOf(id).java(this.#redisson, name)).by('holder')
      await owner.lock()
      const [holder = ''] = await owner.holders()
      const mode = id === 'read' || id === 'write' ? { mode: id } : {}
      holds.push({ name, kind: KINDS[id].title, holder, count: 1, label: '', askedAt: 0, grantedAt: 0, ...mode })
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

const NO_WAIT = { label: '', askedAt: 0, refusedAt: 0, waitTimeMs: 0, chain: [] }

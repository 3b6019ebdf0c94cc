import type { BaseLock, Client, Hold, Holder, Lock, LockOptions } from '../../src/index.js'
import type { Each, Kind } from './kinds.js'

/** A lock in Node. A joint lock delegates to its members what it has no method for. */
export class NodeLock {
  readonly whole: BaseLock
  readonly parts: readonly Lock[]
  /** How many of them make up the whole. */
  readonly #needed: number

  /** Uses as many of the clients as the kind needs. */
  constructor({ node, made }: Kind, clients: Each<Client>, name: string) {
    this.parts = clients.slice(0, made?.servers ?? 1).map((client) => node(client, name))
    this.#needed = made?.needed ?? 1
    this.whole = made ? made.node(...this.parts) : (this.parts[0] as Lock)
  }

  async lock(options?: LockOptions): Promise<Hold> {
    return await this.whole.lock(options)
  }

  async tryLock(options?: LockOptions): Promise<Hold | null> {
    return await this.whole.tryLock(options)
  }

  async withLock<T>(options: LockOptions, fn: (hold: Hold) => Promise<T>): Promise<T> {
    return await this.whole.withLock(options, fn)
  }

  async forceUnlock(): Promise<boolean> {
    // A red lock may have been held on a majority only: a server that replied late has given it back.
    return atLeast(this.#needed, (await Promise.all(this.parts.map((part) => part.forceUnlock()))).map(Number)) === 1
  }

  async isLocked(): Promise<boolean> {
    return atLeast(this.#needed, await Promise.all(this.parts.map(async (part) => Number(await part.isLocked())))) === 1
  }

  /** One after the other. */
  async getHolders(): Promise<readonly Holder[]> {
    return (await Promise.all(this.parts.map((part) => part.getHolders()))).flat()
  }

  async remainingLeaseMs(): Promise<number> {
    return atLeast(this.#needed, await Promise.all(this.parts.map((part) => part.remainingLeaseMs())))
  }
}

/** The value that `count` of the numbers reach. */
export function atLeast(count: number, numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => b - a)[count - 1] ?? 0
}

/** How it is spelled on each server. */
export function holdersOf(hold: Hold): string[] {
  return hold.holder.split(', ')
}

import { CaseContext, type Thing } from './case-context.js'
import type { Site } from './fixture.js'
import { JavaThreads, long, MILLISECONDS, text } from './redisson.js'

/** A latch as one side sees it. */
export interface LatchSide {
  trySetCount(count: number): Promise<boolean>
  countDown(): Promise<void>
  getCount(): Promise<number>
  /** False if waitMs ended first. */
  await(waitMs?: number): Promise<boolean>
  delete(): Promise<boolean>
}

export const LATCHES: readonly Thing[] = [{ name: 'latch' }]

/** What one case has: latches under unique names, on both sides. */
export class LatchFixture extends CaseContext {
  readonly #threads: JavaThreads

  constructor(site: Site, kind: Thing, name: string) {
    super(site, kind, name)
    this.#threads = new JavaThreads(name)
  }

  node(name = this.name, [client] = this.site.clients): LatchSide {
    const latch = client.getCountDownLatch(name)
    return {
      trySetCount: (count) => latch.trySetCount(count),
      countDown: () => latch.countDown(),
      getCount: () => latch.getCount(),
      await: (waitTimeMs) => latch.await({ waitTimeMs }),
      delete: () => latch.delete(),
    }
  }

  async java(name = this.name, [redisson] = this.site.redissons): Promise<LatchSide> {
    const threads = this.#threads
    const latch = await redisson.get('getCountDownLatch', text(name))
    return {
      trySetCount: async (count) => (await threads.call(latch, 'trySetCount', long(count))) === true,
      countDown: async () => void (await threads.call(latch, 'countDown')),
      getCount: async () => Number(await threads.call(latch, 'getCount')),
      async await(waitMs) {
        if (waitMs !== undefined) return (await threads.call(latch, 'await', long(waitMs), MILLISECONDS)) === true
        await threads.call(latch, 'await')
        return true
      },
      delete: async () => (await threads.call(latch, 'delete')) === true,
    }
  }
}

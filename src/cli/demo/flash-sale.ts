import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Command, News, Progress, Shop, Visit } from './flash-sale-worker.js'

const WORKER = fileURLToPath(new URL('./flash-sale-worker.js', import.meta.url))
const CLOSE_MS = 3_000

/** The processes that sell: forked once, so that both sales are made by the same ones. */
export class Crew {
  readonly #workers: ChildProcess[]
  /** Rejects when a worker fails or the signal aborts, and then everything that is waited for. */
  readonly #failed: Promise<never>
  #isClosing = false

  private constructor(processes: number, signal: AbortSignal) {
    this.#workers = Array.from({ length: processes }, () => fork(WORKER, { serialization: 'advanced' }))
    this.#failed = new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      for (const worker of this.#workers) {
        worker.on('message', (news: News) => {
          if (news.is === 'failed') reject(new Error(`a process of the sale failed: ${news.message}`))
        })
        worker.once('error', reject)
        worker.once('exit', (code, signal) => {
          if (!this.#isClosing)
            reject(new Error(`a process of the sale ended by itself (${signal ?? `exit code ${code}`})`))
        })
      }
    })
    this.#failed.catch(() => {})
  }

  /** Start the processes; resolved when all of them are connected to Redis. */
  static async open(processes: number, shop: Shop, signal: AbortSignal): Promise<Crew> {
    signal.throwIfAborted()
    const crew = new Crew(processes, signal)
    try {
      await crew.#all({ do: 'open', shop }, (news) => (news.is === 'open' ? true : undefined))
    } catch (error) {
      await crew.close()
      throw error
    }
    return crew
  }

  /**
   * Sell until nothing is left.
   * @param onProgress  told now and then how far each process is
   * @returns who was in the shop when, for each process
   */
  async sell(isLocked: boolean, onProgress: (processes: readonly Progress[]) => void): Promise<Visit[][]> {
    const progress: Progress[] = this.#workers.map(() => ({ orders: 0, inside: 0, waiting: 0 }))
    return await this.#all({ do: 'sell', isLocked }, (news, index) => {
      if (news.is !== 'selling' && news.is !== 'soldOut') return undefined
      progress[index] = news.progress
      onProgress(progress)
      return news.is === 'soldOut' ? news.visits : undefined
    })
  }

  /** Ends the processes; resolved when they are gone. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(
      this.#workers.map(async (worker) => {
        if (worker.pid === undefined || worker.exitCode !== null || worker.signalCode !== null) return
        const exit = once(worker, 'exit')
        const killer = setTimeout(() => worker.kill('SIGKILL'), CLOSE_MS)
        send(worker, { do: 'close' })
        await exit
        clearTimeout(killer)
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Tell every worker to do something, and wait until `answer` has found in its news what is waited for. */
  async #all<T>(command: Command, answer: (news: News, index: number) => T | undefined): Promise<T[]> {
    const answers = this.#workers.map(
      (worker, index) =>
        new Promise<T>((resolve) => {
          const listen = (news: News): void => {
            const found = answer(news, index)
            if (found === undefined) return
            worker.off('message', listen)
            resolve(found)
          }
          worker.on('message', listen)
          send(worker, command)
        }),
    )
    return await Promise.race([Promise.all(answers), this.#failed])
  }
}

/** A worker that is gone says so by its exit. */
function send(worker: ChildProcess, command: Command): void {
  worker.send(command, () => {})
}

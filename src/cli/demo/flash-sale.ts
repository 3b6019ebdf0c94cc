// Runs one sale: starts the shop servers and collects what they sold.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Progress, Shop, Visit, WorkerCommand, WorkerMessage } from './flash-sale-worker.js'

const WORKER = fileURLToPath(new URL('./flash-sale-worker.js', import.meta.url))
const CLOSE_MS = 3_000

/** The selling processes, forked once and used for both sales. */
export class Crew {
  readonly #workers: ChildProcess[]
  /** Rejects when a worker fails or the signal aborts, which ends every wait. */
  readonly #failed: Promise<never>
  #isClosing = false

  private constructor(processes: number, signal: AbortSignal) {
    this.#workers = Array.from({ length: processes }, () => fork(WORKER, { serialization: 'advanced' }))
    this.#failed = new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      for (const worker of this.#workers) {
        worker.on('message', (message: WorkerMessage) => {
          if (message.is === 'failed') reject(new Error(`a process of the sale failed: ${message.message}`))
        })
        worker.once('error', reject)
        worker.once('exit', (code, signal) => {
          if (!this.#isClosing)
            reject(new Error(`a process of the sale ended unexpectedly (${signal ?? `exit code ${code}`})`))
        })
      }
    })
    this.#failed.catch(() => {})
  }

  /** Starts the processes; resolves when all of them are connected to Redis. */
  static async open(processes: number, shop: Shop, signal: AbortSignal): Promise<Crew> {
    signal.throwIfAborted()
    const crew = new Crew(processes, signal)
    try {
      await crew.#all({ do: 'open', shop }, (message) => (message.is === 'open' ? true : undefined))
    } catch (error) {
      await crew.close()
      throw error
    }
    return crew
  }

  /**
   * Sells until nothing is left.
   * @param onProgress  called now and then with the progress of each process
   * @returns the times of every purchase, for each process
   */
  async sell(isLocked: boolean, onProgress: (processes: readonly Progress[]) => void): Promise<Visit[][]> {
    const progress: Progress[] = this.#workers.map(() => ({ orders: 0, inside: 0, waiting: 0 }))
    return await this.#all({ do: 'sell', isLocked }, (message, index) => {
      if (message.is !== 'selling' && message.is !== 'soldOut') return undefined
      progress[index] = message.progress
      onProgress(progress)
      return message.is === 'soldOut' ? message.visits : undefined
    })
  }

  /** Ends the processes; resolves when they have exited. */
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

  /** Sends a command to every worker, and waits until `find` returns something for one of its messages. */
  async #all<T>(command: WorkerCommand, find: (message: WorkerMessage, index: number) => T | undefined): Promise<T[]> {
    const results = this.#workers.map(
      (worker, index) =>
        new Promise<T>((resolve) => {
          const listen = (message: WorkerMessage): void => {
            const found = find(message, index)
            if (found === undefined) return
            worker.off('message', listen)
            resolve(found)
          }
          worker.on('message', listen)
          send(worker, command)
        }),
    )
    return await Promise.race([Promise.all(results), this.#failed])
  }
}

/** If the worker is gone, its `exit` event reports that. */
function send(worker: ChildProcess, command: WorkerCommand): void {
  worker.send(command, () => {})
}

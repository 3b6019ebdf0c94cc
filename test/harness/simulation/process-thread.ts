import type { Clock } from '../../../src/util/clock.js'
import type { RunningThread, ThreadSeams } from '../../../src/watchdog/thread-client.js'
import type { FromThread, ToThread } from '../../../src/watchdog/thread-protocol.js'
import { ThreadRenewals, type ThreadTools } from '../../../src/watchdog/thread-renewals.js'
import type { ProcessClock } from './process-clock.js'

/** The time of a thread: nothing of it happens any more once it has ended. */
class ThreadClock implements Clock {
  readonly #process: ProcessClock
  readonly #pending = new Set<() => void>()
  #hasEnded = false

  constructor(process: ProcessClock) {
    this.#process = process
  }

  /** That of `hrtime`, which stands still while the machine is suspended. */
  now(): number {
    return this.#process.monotonic()
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    if (this.#hasEnded) return () => {}
    const end = (): void => {
      this.#pending.delete(end)
      cancel()
    }
    const cancel = this.#process.afterInThread(
      delayMs,
      () => {
        this.#pending.delete(end)
        action()
      },
      keepAlive,
    )
    this.#pending.add(end)
    return end
  }

  afterPoll(action: () => void): void {
    action()
  }

  end(): void {
    this.#hasEnded = true
    for (const end of this.#pending) end()
  }
}

let threads = 0

/** No other thread of this program has that file, whatever became of earlier lives. */
export function newThreadFile(): string {
  return `thread ${++threads}`
}

/** The watchdog thread of a process: its own code, on a connection of its own, in the same virtual time. */
export function threadsOf(
  process: ProcessClock,
  newTools: (clock: Clock) => Omit<ThreadTools, 'clock' | 'post'>,
): ThreadSeams {
  return {
    clock: { now: () => process.monotonic(), after: (...args) => process.after(...args), afterPoll: (act) => act() },
    start(_, onMessage: (message: FromThread) => void): RunningThread {
      const clock = new ThreadClock(process)
      const post = (message: FromThread): void => void process.after(0, () => onMessage(message))
      const renewals = new ThreadRenewals({ ...newTools(clock), clock, post })
      return {
        post: (message: ToThread) => void clock.after(0, () => renewals.receive(message)),
        end: async () => clock.end(),
      }
    },
  }
}

import { AssertionError } from 'node:assert'
import { setTimeout as wait } from 'node:timers/promises'

/** Often at first, then less: what a test waits for long need not be noticed at once, and each look may be a command. */
const POLL_MS = { least: 5, most: 50, ofWait: 0.05 }

/** Something did not happen in time: a fault of what is tested, or of a machine that is too slow. */
export class TooLateError extends AssertionError {
  constructor(message: string, stackStartFn: (...args: never[]) => unknown) {
    super({ message, stackStartFn })
  }
}

/** For a bound in real time that was measured. @throws {TooLateError} it was missed */
export function assertInTime(isInTime: boolean, message: string): void {
  if (!isInTime) throw new TooLateError(message, assertInTime)
}

type Truthy<T> = Exclude<T, false | 0 | 0n | '' | null | undefined>

/** A pause, for faults that take time. To wait for something to happen, use `waitUntil`. */
export async function sleep(ms: number): Promise<void> {
  await wait(ms)
}

/**
 * Polls `condition` until it returns something truthy, and resolves to that.
 * @param options.timeoutMs longest wait, ms, from the call; default 5000. A condition that hangs counts as false.
 * @param options.message   what was expected, for the error; a function is called when the wait has failed
 */
export async function waitUntil<T>(
  condition: () => T | Promise<T>,
  options: { timeoutMs?: number; message?: string | (() => string) } = {},
): Promise<Truthy<T>> {
  const { timeoutMs = 5_000, message = 'the condition' } = options
  const began = performance.now()
  while (true) {
    const waitedMs = performance.now() - began
    const result = await within(Promise.resolve(condition()), Math.max(timeoutMs - waitedMs, POLL_MS.least))
    if (result?.value) return result.value as Truthy<T>
    if (performance.now() - began >= timeoutMs) {
      const what = typeof message === 'string' ? message : message()
      throw new TooLateError(`not within ${timeoutMs} ms: ${what}`, waitUntil)
    }
    await wait(Math.min(Math.max(waitedMs * POLL_MS.ofWait, POLL_MS.least), POLL_MS.most))
  }
}

/** How `promise` settled, resolved or rejected; an assertion error if it is still pending after `ms`. */
export async function settlesWithin<T>(promise: PromiseLike<T>, ms: number): Promise<PromiseSettledResult<Awaited<T>>> {
  const settled = Promise.allSettled([promise]).then(([outcome]) => outcome)
  const outcome = (await within(settled, ms))?.value
  if (outcome) return outcome
  throw new TooLateError(`still pending after ${ms} ms`, settlesWithin)
}

/** The promise's value in a box, or undefined if it takes longer. */
async function within<T>(promise: Promise<T>, ms: number): Promise<{ value: T } | undefined> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([promise.then((value) => ({ value })), tooLate])
  } finally {
    clearTimeout(timer)
  }
}

/** Keeps the stream open while the page is shown: reconnects with growing delays, and says since when it is old. */
import { computed, effect, signal } from '@preact/signals'
import { ApiError, isLockedOut, isOutage, readStream } from './api.js'
import { isShown, whenShown } from './screen.js'
import { failToRead, outage, receive } from './state.js'

const FIRST_DELAY_MS = 500
const MAX_DELAY_MS = 15_000

export type Connection =
  | { readonly state: 'connecting' | 'live' }
  | { readonly state: 'stale'; readonly since: Date | undefined; readonly reason: string; readonly retriesAt: number }

export const connection = signal<Connection>({ state: 'connecting' })

/** Whether what is shown may not be true any more. */
export const isOld = computed(() => connection.value.state === 'stale' || outage.value !== undefined)

/** From when it is then; undefined: there is nothing. */
export const shownFrom = computed(() => {
  if (outage.value !== undefined) return outage.value.readAt
  return connection.value.state === 'stale' ? connection.value.since : undefined
})

let retry: () => void = () => {}

export function retryNow(): void {
  retry()
}

export async function stayConnected(): Promise<never> {
  let delayMs = FIRST_DELAY_MS
  let lastMessage: Date | undefined
  let leave = new AbortController()
  effect(() => (isShown.value ? retry() : leave.abort()))
  while (true) {
    await whenShown()
    leave = new AbortController()
    const reason = await readStream(leave, (message) => {
      receive(message)
      delayMs = FIRST_DELAY_MS
      lastMessage = new Date()
      if (connection.value.state !== 'live') connection.value = { state: 'live' }
    }).then(
      () => 'The server has ended the connection.',
      (error: unknown) => {
        if (isOutage(error)) failToRead(error.message)
        else outage.value = undefined // nobody says so any more
        return reasonOf(error)
      },
    )
    if (!isShown.value) continue
    const wait = delayMs * (0.75 + Math.random() / 2) // so that many pages do not come back at once
    connection.value = { state: 'stale', since: lastMessage, reason, retriesAt: performance.now() + wait }
    if (isLockedOut.value) await unlocked()
    else await pause(wait)
    delayMs = Math.min(delayMs * 2, MAX_DELAY_MS)
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof ApiError) return error.message
  // The text of the error of fetch differs between browsers, and says no more.
  return error instanceof TypeError ? 'The server is unreachable.' : String((error as Error).message)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    retry = () => {
      clearTimeout(timer)
      resolve()
    }
  })
}

function unlocked(): Promise<void> {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (isLockedOut.value) return
      queueMicrotask(() => {
        stop()
        resolve()
      })
    })
  })
}

/** Asks the server again and again for what the stream does not have, as long as a component shows it to somebody. */
import { useEffect, useState } from 'preact/hooks'
import { isShown } from './screen.js'

export interface Polled<T> {
  readonly value?: T
  /** When it was received, a `performance.now()`. */
  readonly at: number
  readonly error?: Error
}

/** @param key the question: if it changes, the reply to the old one is forgotten */
export function usePolled<T>(read: (signal: AbortSignal) => Promise<T>, everyMs: number, key = ''): Polled<T> {
  const [polled, setPolled] = useState<Polled<T> & { key: string }>({ at: 0, key })
  useEffect(() => {
    if (!isShown.value) return
    const stopped = new AbortController()
    let timer = 0
    const poll = async (): Promise<void> => {
      try {
        const value = await read(stopped.signal)
        if (!stopped.signal.aborted) setPolled({ value, at: performance.now(), key })
      } catch (error) {
        if (!stopped.signal.aborted) setPolled((before) => ({ ...before, key, error: error as Error }))
      }
      if (!stopped.signal.aborted) timer = setTimeout(() => void poll(), everyMs)
    }
    void poll()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [key, everyMs, isShown.value])
  return polled.key === key ? polled : { at: 0 }
}

/** What the page knows of its screen. */
import { signal } from '@preact/signals'

const narrow = matchMedia('(width < 600px)')

/** Like a phone: rows of tables have several lines. */
export const isNarrow = signal(narrow.matches)

narrow.addEventListener('change', () => {
  isNarrow.value = narrow.matches
})

/**
 * Whether somebody may see the page. While not, it asks the server for nothing: a browser has six connections to a host,
 * and a stream keeps one of them, so hidden tabs and pages that were left would block all others.
 */
export const isShown = signal(false)

look()
document.addEventListener('visibilitychange', look)
addEventListener('pageshow', look)
addEventListener('pagehide', () => {
  isShown.value = false
})

function look(): void {
  isShown.value = document.visibilityState === 'visible'
}

export function whenShown(): Promise<void> {
  return new Promise((resolve) => {
    const stop = isShown.subscribe((isNow) => {
      if (!isNow) return
      resolve()
      queueMicrotask(() => stop())
    })
  })
}

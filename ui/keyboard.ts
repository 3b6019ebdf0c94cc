/** Keys that work anywhere on the page, except where somebody types. */
import { openId, search, tab } from './state.js'

export const SEARCH_ID = 'search'

export function isTyping(event: KeyboardEvent): boolean {
  const isInField = (event.target as Element).closest('input, textarea, select') !== null
  return isInField || isDialogOpen() || event.ctrlKey || event.metaKey || event.altKey
}

export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !isTyping(event)) {
      event.preventDefault()
      searchBox()?.focus()
      searchBox()?.select()
    }
    if (event.key === 'Escape' && !isDialogOpen()) leave(event)
  })
}

/** From the details back to the table; from the search to all rows. */
function leave(event: KeyboardEvent): void {
  if (event.target === searchBox()) {
    search.value = ''
    focusTable()
  } else if (openId.value !== undefined) closeDetail()
}

export function closeDetail(): void {
  openId.value = undefined
  focusTable()
}

export function focusTable(): void {
  document.getElementById(tab.value)?.focus({ preventScroll: true })
}

/** Then all keys are the dialog's. */
function isDialogOpen(): boolean {
  return document.querySelector('dialog[open]') !== null
}

function searchBox(): HTMLInputElement | null {
  return document.querySelector<HTMLInputElement>(`#${SEARCH_ID}`)
}

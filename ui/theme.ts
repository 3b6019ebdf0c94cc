/** The theme of the system, or the one that was chosen. */
import { signal } from '@preact/signals'

export type Theme = 'light' | 'dark'

const STORED = 'holdfast-theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const stored = localStorage.getItem(STORED)

let chosen: Theme | undefined = stored === 'light' || stored === 'dark' ? stored : undefined

export const theme = signal<Theme>(current())

show()
system.addEventListener('change', show)

export function toggleTheme(): void {
  chosen = theme.value === 'dark' ? 'light' : 'dark'
  localStorage.setItem(STORED, chosen)
  show()
}

function current(): Theme {
  return chosen ?? (system.matches ? 'dark' : 'light')
}

function show(): void {
  theme.value = current()
  document.documentElement.dataset['theme'] = theme.value
}

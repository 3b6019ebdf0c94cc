/** Which rows are shown, and in which order. */
import type { Row } from './row.js'

export type SortColumn = 'name' | 'kind' | 'held' | 'holder' | 'lease' | 'waiting' | 'label'

export interface Sort {
  readonly by: SortColumn
  readonly isUp: boolean
}

/** All; with waiters; with a holder that does not respond. */
export type Trait = 'all' | 'contended' | 'trouble'

export function isMatch(search: string, trait: Trait): (row: Row) => boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  return (row) => hasTrait(row, trait) && (words.length === 0 || hasWords(row, words))
}

function hasTrait({ lock }: Row, trait: Trait): boolean {
  if (trait === 'contended') return waitingOf(lock) > 0
  return trait === 'all' || lock.holders.some(({ status }) => status === 'silent' || status === 'disconnected')
}

function hasWords({ lock }: Row, words: readonly string[]): boolean {
  const holders = lock.holders.flatMap(({ holder, client, label, status }) => [
    holder,
    client?.name,
    client?.host,
    label,
    status,
  ])
  const text = [lock.name, lock.kind, ...holders].join('\n').toLowerCase()
  return words.every((word) => text.includes(word))
}

/** A lower bound for the number of waiters. */
export function waitingOf({ waiters, otherListeners }: Row['lock']): number {
  return waiters.length + otherListeners
}

const VALUES: Record<SortColumn, (row: Row) => number | string> = {
  name: ({ lock }) => lock.name,
  kind: ({ lock }) => lock.holders[0]?.mode ?? lock.kind,
  held: (row) => -startOf(row),
  holder: ({ lock }) => lock.holders[0]?.client?.name ?? `~${lock.holders[0]?.holder ?? ''}`,
  lease: ({ leaseEndsAt }) => leaseEndsAt ?? Number.POSITIVE_INFINITY,
  waiting: ({ lock }) => waitingOf(lock),
  label: ({ lock }) => lock.holders[0]?.label ?? '',
}

/** What samples have merely seen began with all else that is new in the same one; a tenth of a second is what is shown. */
function startOf({ lock, heldSince }: Row): number {
  const stepMs = lock.holders[0]?.heldMs === undefined ? 1_000 : 100
  return Math.floor(heldSince / stepMs) * stepMs
}

/** Rows that are equal in it are in the order of their names, so that none jumps about. */
export function compareBy({ by, isUp }: Sort): (a: Row, b: Row) => number {
  const read = VALUES[by]
  const sign = isUp ? 1 : -1
  return (a, b) => sign * compare(read(a), read(b)) || compare(a.lock.name, b.lock.name)
}

function compare(a: number | string, b: number | string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

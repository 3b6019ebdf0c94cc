/** The state of the page: the rows of the stream, and the choices of its user. */
import { batch, computed, signal } from '@preact/signals'
import type { History, Snapshot, StreamMessage, Totals } from '../src/dashboard/api.js'
import { keepRunning, now } from './clock.js'
import { type Row, rowOf } from './row.js'
import { compareBy, isMatch, type Sort, type Trait } from './selection.js'

const HISTORY_MS = 15 * 60_000

export type Tab = 'locks' | 'clients' | 'jobs' | 'graph' | 'audit'
export const TABS: readonly Tab[] = ['locks', 'clients', 'jobs', 'graph', 'audit']

export const tab = signal<Tab>('locks')
export const search = signal('')
export const trait = signal<Trait>('all')
export const sort = signal<Sort>({ by: 'held', isUp: false })
/** The row that the keyboard is at, and the lock whose details are open, by id. */
export const activeId = signal<string | undefined>(undefined)
export const openId = signal<string | undefined>(undefined)

export const rows = signal<ReadonlyMap<string, Row>>(new Map())
export const source = signal<Pick<Snapshot, 'title' | 'readOnly'> | undefined>(undefined)
export const totals = signal<Totals | undefined>(undefined)
/** Columns of samples; `at` is a `performance.now()`. */
export const samples = signal<Samples>(noSamples())
/** The locks of all deadlocks. */
export const deadlockedIds = signal<ReadonlySet<string>>(new Set())
/** The server cannot read Redis. */
export const outage = signal<ShownOutage | undefined>(undefined)

export interface ShownOutage {
  readonly since: Date
  /** From when the rows are; undefined: none were ever read. */
  readonly readAt: Date | undefined
  /** In the words of the client of Redis. */
  readonly reason: string
}

/** From when the rows are. */
let readAt: Date | undefined

type Samples = Record<'at' | 'waiters' | 'newHolds', number[]>

/** The rows of the table of locks while it is paused: all else goes on. */
export const paused = signal<PausedTable | undefined>(undefined)

interface PausedTable {
  readonly rows: ReadonlyMap<string, Row>
  readonly since: Date
  /** When its numbers stop, a `performance.now()`. */
  readonly at: number
}

export function pause(): void {
  paused.value = { rows: rows.value, since: new Date(), at: now() }
}

export const tableRows = computed(() => paused.value?.rows ?? rows.value)

export const shownRows = computed(() => {
  const wanted = [...tableRows.value.values()].filter(isMatch(search.value, trait.value))
  return wanted.sort(compareBy(sort.value))
})

export function showTab(next: Tab): void {
  tab.value = next
  openId.value = undefined
}

/** The server said so in reply to a request for the stream: it does not know since when. */
export function failToRead(reason: string): void {
  outage.value = { since: outage.value?.since ?? new Date(), readAt, reason }
}

let sequence = 0

/** @throws if a message is missing, so that what is shown would be wrong */
export function receive(message: StreamMessage): void {
  const at = performance.now()
  if (message.type === 'changes' && message.sequence !== sequence + 1) throw new Error('A message was lost.')
  sequence = message.sequence
  const { outage: down } = message
  const isFirst = message.type === 'snapshot'
  // Once in an outage: each message says the same of it, a few milliseconds apart.
  if (isFirst || down === undefined || outage.value === undefined) {
    const readAgoMs = down?.readAgoMs ?? 0
    readAt = ago(readAgoMs)
    keepRunning(at - readAgoMs)
  }
  batch(() => {
    if (isFirst) {
      source.value = { title: message.title, readOnly: message.readOnly }
      samples.value = samplesOf(message.history, at)
    }
    const previous = rows.value
    const next = new Map(isFirst ? [] : previous)
    for (const lock of isFirst ? message.locks : message.changed)
      next.set(lock.id, rowOf(lock, at, previous.get(lock.id)))
    if (!isFirst) for (const id of message.removed) next.delete(id)
    rows.value = next
    totals.value = message.totals
    outage.value = down && { since: outage.value?.since ?? ago(down.sinceAgoMs), readAt, reason: down.error }
    if (!isFirst && down === undefined) samples.value = withSample(samples.value, message.totals, at)
  })
}

function ago(ms: number): Date {
  return new Date(Date.now() - ms)
}

function samplesOf(history: History, at: number): Samples {
  const { waiters, newHolds } = history
  return { at: history.agoMs.map((ago) => at - ago), waiters: [...waiters], newHolds: [...newHolds] }
}

function withSample(before: Samples, { waiters, newHolds }: Totals, at: number): Samples {
  const start = before.at.findIndex((time) => time > at - HISTORY_MS)
  const from = start === -1 ? before.at.length : start
  return {
    at: [...before.at.slice(from), at],
    waiters: [...before.waiters.slice(from), waiters],
    newHolds: [...before.newHolds.slice(from), newHolds],
  }
}

function noSamples(): Samples {
  return { at: [], waiters: [], newHolds: [] }
}

/** Compares what the page shows, in words, with what the processes say of themselves. */
import { kindOf, type Of, of, type Said, type SaidHold, type SaidWait } from './messages.js'

/** A row of the table. */
export interface ShownRow {
  readonly name: string
  readonly kind: string
  readonly held: string
  readonly status: string
  readonly who: string
  /** The whole holder: the title of the one who holds it. */
  readonly holder: string
  /** Such as ` +2`. */
  readonly others: string
  readonly waiting: string
  readonly label: string
}

/** The details of one lock. */
export interface ShownDetail {
  readonly name: string
  readonly facts: Facts
  readonly holders: readonly { readonly status: string; readonly who: string; readonly facts: Facts }[]
  readonly waiters: readonly {
    readonly status: string
    readonly who: string
    readonly about: readonly string[]
    readonly waits: string
  }[]
  /** About other processes that listen. */
  readonly others: string
}

type Facts = Readonly<Record<string, string>>

/** How far a duration on the page may be off, ms: it is of a sample, changes once a second, and has no fractions. */
const TOLERANCE_MS = 3_000

/** @param at  when the page was read, on the clock of the machine, ms */
export function compareRow(row: ShownRow, said: readonly Said[], at: number): string[] {
  const holds = of(said, row.name).holds
  const [first] = holds
  const expected = {
    kind: first?.mode ?? kindOf(said, row.name),
    ...(first ? { status: statusOf(first), who: whoIs(first.by, first.holder), holder: first.holder } : {}),
    others: holds.length > 1 ? ` +${holds.length - 1}` : '',
    waiting: waitingOf(said, row.name),
    label: first?.label ?? '',
  }
  const shown = Object.fromEntries(Object.keys(expected).map((key) => [key, row[key as keyof ShownRow]]))
  return [
    ...differing(`${row.name}: its row`, shown, expected),
    ...(first && isSince(row.held, first, at) ? [] : [`${row.name}: its row says that it is held for ${row.held}`]),
  ]
}

export function compareDetail(shown: ShownDetail, said: readonly Said[], name: string, at: number): string[] {
  const { holds, waits } = of(said, name)
  const visible = waits.filter(({ by, holder }) => by.pid !== undefined || holder !== undefined)
  const kind = kindOf(said, name)
  const expected = {
    name,
    facts: { Kind: kind, Holders: String(holds.length), Waiting: waitingOf(said, name) },
    holders: holds.map(expectedHolder),
    waiters: visible.map(expectedWaiter).sort(byText),
    others: visible.length < waits.length,
  }
  const { 'Lease left': _, ...facts } = shown.facts
  const seen = {
    name: shown.name,
    facts,
    holders: shown.holders.map(({ status, who, facts: { For = '', Mode = '', Count, Process, Holder } }) => {
      return { status, who, label: For, mode: Mode, count: Count, process: placeOf(Process), holder: Holder }
    }),
    waiters: shown.waiters.map(({ status, who, about }) => ({ status, who, about })).sort(byText),
    others: /other process/.test(shown.others),
  }
  const [hold] = holds
  const held = shown.holders[0]?.facts['Held for'] ?? shown.holders[0]?.facts['Seen for'] ?? ''
  const wrongWaits = shown.waiters.filter(({ about, waits: text }) => {
    const wait = visible.find(({ by, label }) => by.pid !== undefined && label === about[0])
    return wait && Math.abs(msOf(text) - (at - wait.askedAt)) > TOLERANCE_MS
  })
  return [
    ...differing(`${name}: its details`, seen, expected),
    ...(hold && isSince(held, hold, at) ? [] : [`${name}: its details say that it is held for ${held}`]),
    ...wrongWaits.map(({ waits: text, about }) => `${name}: its details say that ${about[0]} waits for ${text}`),
  ]
}

/** As the page calls it. */
export function whoIs({ name, host, pid }: Said, holder: string): string {
  return pid === undefined ? holder.replace(/^(.{8})-[^:]*/, '$1') : `${name}@${host}`
}

function expectedHolder(hold: Of<SaidHold>) {
  const { by, holder, count, label, mode = '' } = hold
  const process = by.pid === undefined ? '' : `pid ${by.pid} on ${by.host}`
  return { status: statusOf(hold), who: whoIs(by, holder), label, mode, count: String(count), process, holder }
}

function expectedWaiter(wait: Of<SaidWait>) {
  const { by, holder = '', label, chain } = wait
  const held = chain.length === 0 ? [] : [`holds ${chain.map(({ lock }) => lock).join(', ')}`]
  return { status: statusOf(wait), who: whoIs(by, holder), about: by.pid === undefined ? [] : [label, ...held] }
}

function statusOf({ by }: Of<unknown>): string {
  return by.pid === undefined ? 'unlisted' : 'responding'
}

/** Processes that only listen are one each, at least. */
function waitingOf(said: readonly Said[], name: string): string {
  const { waits } = of(said, name)
  if (waits.length === 0) return '–'
  const hasListeners = waits.some(({ by, holder }) => by.pid === undefined && holder === undefined)
  return `${hasListeners ? '≥ ' : ''}${waits.length}`
}

/** `orders 1.0.0, pid 7 on host`, without the program. */
function placeOf(process = ''): string {
  return process.replace(/^.*, (?=pid )/, '')
}

function isSince(text: string, { by, askedAt, grantedAt }: Of<SaidHold>, at: number): boolean {
  // Of Redisson the page knows since when it has seen it.
  if (by.pid === undefined) return text.startsWith('>')
  const ms = msOf(text)
  return ms >= at - grantedAt - TOLERANCE_MS && ms <= at - askedAt + TOLERANCE_MS
}

/** `2h 14m`, `1m 5s` or `0.4s`. */
function msOf(text: string): number {
  const units: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000 }
  const parts = [...text.matchAll(/([\d.]+)([hms])/g)]
  return parts.reduce((sum, [, number, unit = '']) => sum + Number(number) * (units[unit] ?? 0), 0)
}

function byText(one: { about: readonly string[] }, other: { about: readonly string[] }): number {
  return one.about.join() < other.about.join() ? -1 : 1
}

function differing(what: string, seen: unknown, expected: unknown): string[] {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(expected)]
  return left === right ? [] : [`${what}: ${left}, not ${right}`]
}

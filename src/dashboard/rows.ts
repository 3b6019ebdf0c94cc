/** Locks as the page gets them: with ids that fit into a URL, names cut to size, and only what JSON can say. */
import { createHash } from 'node:crypto'
import type { LockInfo } from '../fleet/lock-info.js'
import { defined } from '../util/defined.js'
import type { LockRow } from './api.js'

/** A longer name is named by its hash. */
const MAX_ID_NAME_BYTES = 1024
const MAX_SHOWN_NAME = 1024
/** How far a duration may deviate from its expected value before the row counts as changed, ms. */
const TOLERANCE_MS = 500

export function idOf(name: string): string {
  if (Buffer.byteLength(name) <= MAX_ID_NAME_BYTES) return Buffer.from(name).toString('base64url')
  return `~${createHash('sha256').update(name).digest('hex')}`
}

/** @returns undefined: the id is a hash, or no id */
export function nameOf(id: string): string | undefined {
  const name = Buffer.from(id, 'base64url').toString()
  return name !== '' && idOf(name) === id ? name : undefined
}

/** A part of a name; all of nearly every name. */
export function shown(name: string): string {
  return name.length > MAX_SHOWN_NAME ? name.slice(0, MAX_SHOWN_NAME).toWellFormed() : name
}

/** @param seenMs  for how long a holder has been seen, ms */
export function rowOf(info: LockInfo, ageMs: number, seenMs: (holder: string) => number): LockRow {
  const { name, kind, remainingLeaseMs, holders, waiters, freePermits, count, otherListeners, doubts } = info
  return {
    id: idOf(name),
    name: shown(name),
    nameLength: name.length,
    kind,
    ...defined({ freePermits, count }),
    remainingLeaseMs: Number.isFinite(remainingLeaseMs) ? remainingLeaseMs : null,
    holders: holders.map((holder) => ({ ...holder, seenMs: seenMs(holder.holder) })),
    waiters: waiters.map(({ chain, ...waiter }) => ({
      ...waiter,
      chain: chain.map(({ lock, holder }) => ({ id: idOf(lock), lock: shown(lock), holder })),
    })),
    otherListeners,
    doubts,
    ageMs,
  }
}

export interface Reading {
  readonly info: LockInfo
  /** ms of the clock */
  readonly at: number
}

/** Whether the durations of a lock merely went on from one reading to the next. */
export function isUnchanged(before: Reading, after: Reading): boolean {
  const rising: [number, number][] = []
  const falling: [number, number][] = []
  for (const [index, { heldMs, remainingLeaseMs }] of after.info.holders.entries()) {
    const { heldMs: held = Infinity, remainingLeaseMs: left = Infinity } = before.info.holders[index] ?? {}
    if (heldMs !== undefined) rising.push([held, heldMs])
    if (remainingLeaseMs !== undefined) falling.push([left, remainingLeaseMs])
  }
  for (const [index, { waitedMs, givesUpInMs }] of after.info.waiters.entries()) {
    const { waitedMs: waited = Infinity, givesUpInMs: givesUp = Infinity } = before.info.waiters[index] ?? {}
    if (waitedMs !== undefined) rising.push([waited, waitedMs])
    if (givesUpInMs !== undefined) falling.push([givesUp, givesUpInMs])
  }
  if (Number.isFinite(after.info.remainingLeaseMs)) {
    falling.push([before.info.remainingLeaseMs, after.info.remainingLeaseMs])
  }
  const passed = after.at - before.at
  const isNear = (expected: number, found: number): boolean => Math.abs(Math.max(expected, 0) - found) <= TOLERANCE_MS
  return (
    rising.every(([from, to]) => isNear(from + passed, to)) &&
    falling.every(([from, to]) => isNear(from - passed, to)) &&
    shapeOf(before.info) === shapeOf(after.info)
  )
}

const DURATIONS = new Set(['heldMs', 'waitedMs', 'givesUpInMs', 'remainingLeaseMs'])

/** All but the durations, and whether there is one. */
function shapeOf(info: LockInfo): string {
  return JSON.stringify(info, (key, value) => (DURATIONS.has(key) ? Number.isFinite(value) : value))
}

/** `*` and `?` as in Redis; a pattern without them is looked for anywhere. In time proportional to both lengths. */
export function matches(text: string, pattern: string): boolean {
  if (!/[*?]/.test(pattern)) return text.includes(pattern)
  let at = 0
  let next = 0
  let star = -1
  let retry = 0
  while (at < text.length) {
    if (next < pattern.length && pattern[next] === '*') {
      star = next++
      retry = at
    } else if (next < pattern.length && (pattern[next] === '?' || pattern[next] === text[at])) {
      at++
      next++
    } else if (star >= 0) {
      next = star + 1
      at = ++retry
    } else return false
  }
  while (pattern[next] === '*') next++
  return next === pattern.length
}

/** Reads the keys of a lock, semaphore or latch of any kind: they alone decide who holds it. */
import { toArray } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import type { Holder } from '../locks/kinds/lock-kind.js'
import { KINDS } from '../locks/kinds/table.js'
import { fleetRead } from '../lua/generated.js'
import { clientIdOf } from '../wire/holder.js'
import {
  fairQueue,
  fencingTokenKey,
  generationKey,
  isWriter,
  orderedQueue,
  permitLeases,
  priorityAt,
  readHoldPrefix,
  turnQueueKey,
} from '../wire/keys.js'

/** The kinds as they are in Redis: some that the program tells apart look the same there. */
export const KIND = {
  lock: KINDS.lock.title,
  fair: KINDS.fair.title,
  fenced: KINDS.fenced.title,
  readWrite: 'read-write lock',
  string: KINDS.string.title,
  values: KINDS.fasterMulti.title,
  semaphore: 'semaphore',
  latch: 'latch',
  permits: 'permit expirable semaphore',
  unknown: 'unknown',
} as const

/** Whether one holder can be interrupted: not of a semaphore, nor of a lock on values. */
export function isBreakable(kind: string): boolean {
  return kind !== KIND.values && kind !== KIND.semaphore && kind !== KIND.permits && kind !== KIND.latch
}

export interface KeyHolder extends Holder {
  readonly mode?: 'read' | 'write'
  /** Of a permit, ms. */
  readonly remainingLeaseMs?: number
}

export interface LockKeys {
  readonly key: string
  readonly kind: string
  /** Whether the key exists, of any type. */
  readonly exists: boolean
  /** The number in it: free permits, the count of a latch, or anything else. */
  readonly number?: number
  /** ms; 0: free; Infinity: no expiry */
  readonly remainingLeaseMs: number
  readonly holders: readonly KeyHolder[]
  /** Waiting holders of a fair or ordered lock, the next one first. */
  readonly queue: readonly string[]
  /** Of those in the queue of an ordered lock. */
  readonly priorities: ReadonlyMap<string, number>
  /** Tickets of waiting clients, the next one first. */
  readonly tickets: readonly string[]
  /** Something was left out. */
  readonly isCut: boolean
}

/** The clients that hold the lock, or wait for it in a queue. */
export function clientsIn({ holders, queue, tickets }: LockKeys): string[] {
  const all = [...holders.map(({ holder }) => holder), ...queue, ...tickets]
  return [...new Set(all.map(clientIdOf))].filter((id) => id !== '')
}

/** Maximum number of entries read from a list. */
const MAX_ENTRIES = 200
/** A holder of Redisson or Holdfast; Redisson's transactions add one more part. */
const HOLDER = /^[\w-]{1,64}:-?\d{1,19}(:|$)/
const COUNT = /^[1-9]\d{0,15}$/

/** @throws {NoReplyError} no reply in time */
export async function readLockKeys(scripts: Scripts, key: string): Promise<LockKeys> {
  const call = fleetRead(
    key,
    fairQueue(key),
    turnQueueKey(key),
    fencingTokenKey(key),
    permitLeases(key),
    generationKey(key),
    orderedQueue(key),
    readHoldPrefix(key),
  )
  return parseLockKeys(key, await scripts.run(call))
}

/** @throws {NoReplyError} it is not a reply of the script */
export function parseLockKeys(key: string, reply: unknown): LockKeys {
  const [now, type, left, text, fields, queue, tickets, permits, hasToken, hasGeneration, isCut, ended, places] =
    toArray(reply)
  const found: Found = {
    now: Number(now),
    type: String(type),
    leftMs: Number(left),
    text: String(text),
    fields: pairs(fields),
    queue: texts(queue),
    permits: pairs(permits),
    hasToken: Number(hasToken) === 1,
    hasGeneration: Number(hasGeneration) === 1,
  }
  const ordered = pairs(places)
  const kind = kindOf(found)
  const held = heldAs(kind, found)
  return {
    key,
    kind,
    exists: found.type !== 'none',
    ...(isNumber(found.text) && { number: Number(found.text) + Number(ended) }),
    remainingLeaseMs: held.holders.length === 0 ? 0 : held.remainingLeaseMs,
    holders: held.holders.slice(0, MAX_ENTRIES),
    queue: found.queue.length > 0 ? found.queue : [...ordered.keys()],
    priorities: new Map([...ordered].map(([holder, place]) => [holder, priorityAt(Number(place))])),
    tickets: texts(tickets),
    isCut: Number(isCut) === 1 || held.holders.length > MAX_ENTRIES,
  }
}

interface Found {
  readonly now: number
  readonly type: string
  readonly leftMs: number
  readonly text: string
  readonly fields: ReadonlyMap<string, string>
  readonly queue: readonly string[]
  readonly permits: ReadonlyMap<string, string>
  readonly hasToken: boolean
  readonly hasGeneration: boolean
}

type Held = Pick<LockKeys, 'holders' | 'remainingLeaseMs'>

function kindOf(found: Found): string {
  const { type, fields, queue, permits, hasToken } = found
  if (type === 'hash') return kindOfHash(fields, queue, hasToken)
  if (type === 'string') return kindOfText(found)
  if (type !== 'none') return KIND.unknown
  if (permits.size > 0) return KIND.permits
  if (queue.length > 0) return KIND.fair
  return hasToken ? KIND.fenced : KIND.unknown
}

function kindOfHash(fields: Found['fields'], queue: readonly string[], hasToken: boolean): string {
  const mode = fields.get('mode')
  if (mode === 'read' || mode === 'write') return KIND.readWrite
  const entries = [...fields]
  if (entries.some(([field, text]) => fields.has(expiryField(field, text)))) return KIND.values
  const isLock = entries.length === 1 && entries.every(([field, text]) => HOLDER.test(field) && COUNT.test(text))
  if (!isLock) return KIND.unknown
  if (queue.length > 0) return KIND.fair
  return hasToken ? KIND.fenced : KIND.lock
}

function kindOfText({ text, leftMs, permits, hasGeneration }: Found): string {
  if (!isNumber(text)) return HOLDER.test(text) && leftMs > 0 ? KIND.string : KIND.unknown
  if (permits.size > 0) return KIND.permits
  return hasGeneration ? KIND.semaphore : KIND.unknown
}

function heldAs(kind: string, { now, leftMs, text, fields, permits }: Found): Held {
  const remainingLeaseMs = endOf(leftMs)
  if (kind === KIND.readWrite) return { remainingLeaseMs, holders: readersAndWriter(fields) }
  if (kind === KIND.values) return valuesHeld(fields, now)
  if (kind === KIND.string) return { remainingLeaseMs, holders: [{ holder: text, holdCount: 1 }] }
  if (kind === KIND.permits) {
    return {
      remainingLeaseMs: Math.max(0, ...[...permits.values()].map((ms) => endOf(Number(ms)))),
      holders: [...permits].map(([holder, ms]) => ({
        holder,
        holdCount: 1,
        ...(Number(ms) >= 0 && { remainingLeaseMs: Number(ms) }),
      })),
    }
  }
  if (kind !== KIND.lock && kind !== KIND.fair && kind !== KIND.fenced) return { remainingLeaseMs: 0, holders: [] }
  return { remainingLeaseMs, holders: [...fields].map(([holder, count]) => ({ holder, holdCount: Number(count) })) }
}

function readersAndWriter(fields: Found['fields']): KeyHolder[] {
  return [...fields]
    .filter(([field, count]) => HOLDER.test(field) && COUNT.test(count))
    .map(([holder, count]) => ({
      holder,
      holdCount: Number(count),
      mode: isWriter(holder) ? 'write' : 'read',
    }))
}

/** Reads a multi-lock of values: every holder of any of the values, and the longest of their leases. */
function valuesHeld(fields: Found['fields'], now: number): Held {
  const holders = new Map<string, number>()
  let remainingLeaseMs = 0
  for (const [value, holder] of fields) {
    const leftMs = Number(fields.get(expiryField(value, holder)) ?? 0) - now
    if (!(leftMs > 0)) continue
    const count = Number(fields.get(`${value}:${holder}:lock_count`) ?? 1)
    holders.set(holder, Math.max(holders.get(holder) ?? 1, count || 1))
    remainingLeaseMs = Math.max(remainingLeaseMs, leftMs)
  }
  return { remainingLeaseMs, holders: [...holders].map(([holder, holdCount]) => ({ holder, holdCount })) }
}

/** As in faster-multi-lock/acquire. */
function expiryField(value: string, holder: string): string {
  return `${value}:${holder}:expire_time`
}

function isNumber(text: string): boolean {
  return /^-?\d+$/.test(text)
}

/** Converts a PTTL; negative: no expiry. */
function endOf(leftMs: number): number {
  return leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs
}

function texts(reply: unknown): string[] {
  return toArray(reply).slice(0, MAX_ENTRIES).map(String)
}

function pairs(reply: unknown): Map<string, string> {
  const words = toArray(reply).map(String)
  const found = new Map<string, string>()
  for (let at = 0; at + 1 < words.length; at += 2) found.set(words[at] as string, words[at + 1] as string)
  return found
}

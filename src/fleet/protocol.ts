/**
 * The messages by which clients describe themselves to each other, version 1. A request is published to the inbox of a
 * client, its reply to the channel that the request names. They only add details to the keys: every client that may publish can
 * send anything, so everything is checked here, cut to size, and never evaluated. All durations are relative, because the
 * clocks of two machines differ. Unknown fields are ignored.
 */
import { REPLY_PREFIX } from '../wire/keys.js'
import type { ChainLink } from './lock-info.js'

/** Longest reply, bytes of JSON; an asker reads at most `MAX_READ_BYTES` of all replies together. */
export const MAX_REPLY_BYTES = 64 * 1024
export const MAX_READ_BYTES = 8 * 1024 * 1024
/** Longest text in a message; longer ones are cut. */
const MAX_TEXT = 1024
const MAX_STACK = 4096
const MAX_NONCE = 64
/** How many entries of a list count. */
const MAX_ENTRIES = 1_000

export interface StateRequest {
  /** Where to send the reply. */
  readonly reply: string
  /** What the reply has to repeat: no other client was told. */
  readonly nonce?: string | undefined
  /** Only these locks; undefined: all. */
  readonly locks?: readonly string[] | undefined
  /** Maximum number of holds, and of waits, in the reply. */
  readonly limit: number
}

/** A hold as its client reports it. */
export interface HoldState {
  readonly lock: string
  readonly holder: string
  readonly count: number
  /** ms */
  readonly heldMs: number
  readonly label?: string | undefined
  readonly stack?: string | undefined
  /** 32 hexadecimal digits. */
  readonly trace?: string | undefined
  /** 16 hexadecimal digits. */
  readonly span?: string | undefined
}

/** A waiting call as its client reports it. */
export interface WaitState {
  /** Identifies the wait within its client: the same in two replies means the same wait. */
  readonly wait: number
  readonly lock: string
  /** ms */
  readonly waitedMs: number
  /** ms; undefined: never. */
  readonly endsInMs?: number | undefined
  readonly label?: string | undefined
  /** Whether its client listens on a channel of that lock, and not only on its inbox. */
  readonly isListening?: boolean | undefined
  /** The holds of the waiting call chain. */
  readonly chain: readonly ChainLink[]
}

export interface StateReply {
  readonly client: string
  /** Of the request. */
  readonly nonce?: string | undefined
  readonly holds: readonly HoldState[]
  readonly waits: readonly WaitState[]
  /** How many holds and waits were left out. */
  readonly more: number
  /** How many holds it has lost in the last hour. */
  readonly lost?: number | undefined
}

export function writeStateRequest({ reply, nonce, locks, limit }: StateRequest): string {
  return JSON.stringify({ v: 1, ask: 'state', reply, nonce, locks: locks ?? null, limit })
}

export function writeStateReply(reply: StateReply): string {
  return JSON.stringify({ v: 1, ...reply })
}

/** The reply to a request of a later version. */
export function writeUnsupported(client: string, ask: string): string {
  return JSON.stringify({ v: 1, client, unsupported: cut(ask) })
}

/** @returns the request in a message on an inbox; only `ask` if this version does not support it; undefined if malformed */
export function readRequest(
  text: string,
): StateRequest | { readonly reply: string; readonly unknown: string } | undefined {
  const message = readObject(text)
  const reply = message?.reply
  if (typeof reply !== 'string' || !isReplyChannel(reply) || typeof message?.ask !== 'string') return undefined
  if (message.ask !== 'state' || message.v !== 1) return { reply, unknown: message.ask }
  const { locks, limit, nonce } = message
  return {
    reply,
    ...textIn('nonce', nonce, MAX_NONCE),
    locks: Array.isArray(locks) ? locks.filter((name) => typeof name === 'string').slice(0, MAX_ENTRIES) : undefined,
    limit: Math.min(isCount(limit) ? limit : MAX_ENTRIES, MAX_ENTRIES),
  }
}

/** @returns undefined: it is not a reply, or too long */
export function readStateReply(text: string): StateReply | undefined {
  if (text.length > MAX_REPLY_BYTES) return undefined
  const message = readObject(text)
  if (message?.v !== 1 || typeof message.client !== 'string') return undefined
  const { lost, nonce } = message
  return {
    client: cut(message.client),
    ...textIn('nonce', nonce, MAX_NONCE),
    holds: listOf(message.holds, readHold),
    waits: listOf(message.waits, readWait),
    more: isCount(message.more) ? message.more : 0,
    ...(isCount(lost) ? { lost: Math.min(Math.floor(lost), MAX_ENTRIES) } : {}),
  }
}

/** @returns undefined: it is not what a client says of a hold */
function readHold(value: unknown): HoldState | undefined {
  const { lock, holder, count, heldMs, label, stack, trace, span } = (value ?? {}) as Record<string, unknown>
  if (typeof lock !== 'string' || typeof holder !== 'string' || !isCount(count) || !isCount(heldMs)) return undefined
  return {
    lock,
    holder: cut(holder),
    count,
    heldMs,
    ...textIn('label', label),
    ...textIn('stack', stack, MAX_STACK),
    ...(isId(trace, 32) ? { trace } : {}),
    ...(isId(span, 16) ? { span } : {}),
  }
}

function readWait(value: unknown): WaitState | undefined {
  const { wait, lock, waitedMs, endsInMs, label, isListening, chain } = (value ?? {}) as Record<string, unknown>
  if (!isCount(wait) || typeof lock !== 'string' || !isCount(waitedMs)) return undefined
  return {
    wait,
    lock,
    waitedMs,
    ...(isCount(endsInMs) ? { endsInMs } : {}),
    ...textIn('label', label),
    isListening: isListening === true,
    chain: listOf(chain, readLink),
  }
}

function readLink(value: unknown): ChainLink | undefined {
  const { lock, holder } = (value ?? {}) as Record<string, unknown>
  return typeof lock === 'string' && typeof holder === 'string' ? { lock, holder: cut(holder) } : undefined
}

/** A reply goes to a channel for replies and to no other: a request cannot make a client publish to a lock's channel. */
function isReplyChannel(channel: string): boolean {
  return channel.startsWith(REPLY_PREFIX) && /^[\da-f]{32}$/.test(channel.slice(REPLY_PREFIX.length))
}

/** Every field of a message, not checked yet. */
type Message = Partial<
  Record<'v' | 'ask' | 'reply' | 'nonce' | 'locks' | 'limit' | 'client' | 'holds' | 'waits' | 'more' | 'lost', unknown>
>

function readObject(text: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Message) : undefined
  } catch {
    return undefined
  }
}

function listOf<T>(value: unknown, read: (entry: unknown) => T | undefined): T[] {
  if (!Array.isArray(value)) return []
  return value
    .slice(0, MAX_ENTRIES)
    .map(read)
    .filter((entry) => entry !== undefined)
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

/** Whether it is the id of a trace or span: links to it rely on its form. */
function isId(value: unknown, digits: 16 | 32): value is string {
  return typeof value === 'string' && value.length === digits && /^[\da-f]+$/.test(value) && !/^0+$/.test(value)
}

function textIn<Name extends string>(name: Name, value: unknown, most = MAX_TEXT): { [key in Name]?: string } {
  return typeof value === 'string' ? ({ [name]: cut(value, most) } as { [key in Name]: string }) : {}
}

function cut(text: string, most = MAX_TEXT): string {
  return text.length > most ? text.slice(0, most) : text
}

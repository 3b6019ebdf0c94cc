/**
 * The record of a client: how it describes itself in Redis, also for those who ask when it no longer responds. Its age
 * follows from its TTL, so no clocks are compared.
 */
import type { Scripts } from '../delivery/scripts.js'
import { clientRecordKey } from '../wire/keys.js'
import type { ClientInfo } from './lock-info.js'
import type { OwnState } from './own-state.js'
import { type HoldState, readStateReply, type WaitState } from './protocol.js'

export const RECORD_TTL_MS = 3_600_000
/** Longest name, host or version. */
const MAX_TEXT = 256

export interface ClientRecord {
  readonly client: ClientInfo
  /** The long holds when the record was written; `heldMs` is as of then. */
  readonly holds: readonly HoldState[]
  readonly waits: readonly WaitState[]
  /** When it was written, ms ago. */
  readonly ageMs: number
}

export async function writeRecord(scripts: Scripts, client: ClientInfo, { holds, waits }: OwnState): Promise<void> {
  const key = clientRecordKey(client.id)
  const { id, ...rest } = client
  const text = JSON.stringify({ v: 1, client: id, ...rest, holds, waits })
  await scripts.command(['SET', key, text, 'PX', String(RECORD_TTL_MS)], key)
}

/** @param timeoutMs  how long to wait for the reply */
export async function deleteRecord(scripts: Scripts, clientId: string, timeoutMs: number): Promise<void> {
  const key = clientRecordKey(clientId)
  await scripts.command(['DEL', key], key, timeoutMs)
}

/**
 * @param timeoutMs  how long to wait for the replies
 * @returns undefined: there is none
 */
export async function fetchRecord(
  scripts: Scripts,
  clientId: string,
  timeoutMs?: number,
): Promise<ClientRecord | undefined> {
  const key = clientRecordKey(clientId)
  const [text, pttl] = await Promise.all([
    scripts.command(['GET', key], key, timeoutMs),
    scripts.command(['PTTL', key], key, timeoutMs),
  ])
  const record = typeof text === 'string' ? readRecord(text, Number(pttl)) : undefined
  return record && { ...record, client: { ...record.client, id: clientId } }
}

/**
 * @param pttl  what is left of its TTL, ms
 * @returns undefined: it is not a record. Malformed fields are empty
 */
export function readRecord(text: string, pttl: number): ClientRecord | undefined {
  const state = readStateReply(text)
  if (!state) return undefined
  const { name, host, pid, version } = JSON.parse(text) as Record<string, unknown>
  const client = {
    id: state.client,
    name: textOf(name),
    host: textOf(host),
    pid: typeof pid === 'number' ? pid : 0,
    version: textOf(version),
  }
  return { client, holds: state.holds, waits: state.waits, ageMs: Math.max(0, RECORD_TTL_MS - Math.max(0, pttl)) }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : ''
}

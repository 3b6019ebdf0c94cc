// Checks a request to release a lock by force.
import { MAX_GRACE_MS } from '../locks/breaking/mark.js'
import { defined } from '../util/defined.js'
import type { UnlockRequest } from './api.js'

/** Longer than any valid request. */
export const MAX_BODY_BYTES = 16 * 1024
const MAX_ID = 2_048
const MAX_HOLDER = 2_048
const MAX_REASON = 1_000
const MAX_QUARANTINE_MS = 60_000

/** @returns what is wrong with it, as text */
export async function readUnlock(request: Request): Promise<UnlockRequest | string> {
  const body = await readBody(request)
  if (body === undefined) return `at most ${MAX_BODY_BYTES} bytes`
  let value: Partial<Record<keyof UnlockRequest, unknown>> | null
  try {
    value = JSON.parse(body)
  } catch {
    return 'the body is not JSON'
  }
  const { id, holder, reason, graceMs, quarantineMs, anyway = false } = value ?? {}
  if (!isText(id, MAX_ID)) return 'id: expected that of a lock'
  if (!isText(holder, MAX_HOLDER)) return 'holder: expected the whole holder'
  if (!isText(reason, MAX_REASON)) return `reason: expected a text of at most ${MAX_REASON} characters`
  if (typeof anyway !== 'boolean') return 'anyway: expected true or false'
  if (!isOptionalMs(graceMs, MAX_GRACE_MS)) return `graceMs: expected 0 to ${MAX_GRACE_MS}`
  if (!isOptionalMs(quarantineMs, MAX_QUARANTINE_MS)) return `quarantineMs: expected 0 to ${MAX_QUARANTINE_MS}`
  return { id, holder, reason, anyway, ...defined({ graceMs, quarantineMs }) }
}

function isOptionalMs(value: unknown, most: number): value is number | undefined {
  return value === undefined || (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= most)
}

function isText(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.length <= most && value.isWellFormed()
}

/** @returns undefined: it is too long */
async function readBody(request: Request): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > MAX_BODY_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

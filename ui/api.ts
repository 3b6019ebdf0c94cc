/** Requests to the server of the dashboard. Its token comes in the fragment of the URL, which no server and no log sees. */
import { signal } from '@preact/signals'
import type {
  AuditReply,
  ClientsReply,
  DeadlocksReply,
  ErrorReply,
  JobsReply,
  LockDetail,
  StreamMessage,
  UnlockReply,
  UnlockRequest,
} from '../src/dashboard/api.js'
import { visible } from './format.js'

const STORED = 'holdfast-token'
/** The server sends a line every second, or every other second while Redis does not reply. */
const SILENCE_MS = 6_000
/** Longer than the server waits for Redis before it gives up. */
const REPLY_MS = 20_000

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: ErrorReply['code'] | undefined,
    message: string,
  ) {
    super(message)
  }
}

const MAX_ERROR = 300

/** What went wrong, in our words if we know them. */
export function explain(error: Error): string {
  return isOutage(error) ? 'Redis cannot be read.' : visible(error.message, MAX_ERROR)
}

/** Whether the server replied that it cannot read Redis. */
export function isOutage(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 503 && error.code === 'unavailable'
}

/** The server wants another token. */
export const isLockedOut = signal(false)

let token = sessionStorage.getItem(STORED)
takeToken()

/** The token that somebody typed. */
export function enterToken(typed: string): void {
  token = typed
  sessionStorage.setItem(STORED, typed)
  isLockedOut.value = false
}

/** Takes the token out of the address: it belongs neither into bookmarks nor on a shared screen, nor into a link. */
export function takeToken(): boolean {
  const given = location.hash.startsWith('#token=') && new URLSearchParams(location.hash.slice(1)).get('token')
  if (!given) return false
  history.replaceState(null, '', location.pathname + location.search)
  enterToken(given)
  return true
}

export const getLock = (id: string, signal: AbortSignal): Promise<LockDetail> =>
  get(`locks/${encodeURIComponent(id)}`, signal)
export const getClients = (signal: AbortSignal): Promise<ClientsReply> => get('clients', signal)
export const getDeadlocks = (signal: AbortSignal): Promise<DeadlocksReply> => get('deadlocks', signal)
export const getJobs = (signal: AbortSignal): Promise<JobsReply> => get('jobs', signal)
export const getAudit = (signal: AbortSignal): Promise<AuditReply> => get('audit', signal)

export async function postUnlock(request: UnlockRequest): Promise<UnlockReply> {
  const headers = { 'content-type': 'application/json', 'x-holdfast': '1' }
  const response = await send('unlock', { method: 'POST', headers, body: JSON.stringify(request) })
  return (await response.json()) as UnlockReply
}

/** Reads the stream to its end, or until `leave` is aborted, as this does if it is silent. Rejects then. */
export async function readStream(leave: AbortController, onMessage: (message: StreamMessage) => void): Promise<void> {
  let timer = 0
  const expectMore = (withinMs: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => leave.abort(new Error('The server has stopped sending.')), withinMs)
  }
  try {
    expectMore(REPLY_MS)
    const { body } = await send('stream', { signal: leave.signal })
    expectMore(SILENCE_MS)
    if (body === null) throw new Error('The server sent nothing.')
    for await (const line of linesOf(body.getReader())) {
      expectMore(SILENCE_MS)
      const message = JSON.parse(line) as StreamMessage
      await nextTask() // so that frames can be drawn before it is shown, which takes as long again
      onMessage(message)
    }
  } finally {
    clearTimeout(timer)
  }
}

async function* linesOf(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let begun = ''
  while (true) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (begun + decoder.decode(value, { stream: true })).split('\n')
    begun = lines.pop() ?? ''
    yield* lines.filter((line) => line !== '')
  }
}

function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve))
}

async function get<T>(path: string, signal: AbortSignal): Promise<T> {
  return (await (await send(path, { signal })).json()) as T
}

async function send(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers)
  if (token !== null) headers.set('authorization', `Bearer ${token}`)
  const response = await fetch(`./api/${path}`, { ...init, headers, cache: 'no-store' })
  if (response.ok) return response
  if (response.status === 401) isLockedOut.value = true
  const reply = (await response.json().catch(() => undefined)) as ErrorReply | undefined
  throw new ApiError(response.status, reply?.code, reply?.error ?? `The server replied with status ${response.status}.`)
}

/** Between node:http, as Express and Fastify have it too, and Request and Response. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { hostnameOf, refusal } from './guard.js'
import { MAX_BODY_BYTES } from './unlock.js'

/** Express adds where an application is mounted, and what a parser has read of the body. */
interface ParsedRequest extends IncomingMessage {
  readonly originalUrl?: string
  readonly baseUrl?: string
  readonly body?: unknown
}

/** Where a request came in. */
export interface Arrival {
  readonly request: Request
  /** The path under which Express has mounted the dashboard. */
  readonly basePath: string | undefined
  readonly address: string
  readonly incoming: IncomingMessage
}

/** @returns the response that refuses it, if it is not a request that makes sense */
export async function arrivalOf(incoming: ParsedRequest): Promise<Arrival | Response> {
  const { headers, method = 'GET', originalUrl, baseUrl, url = '/', socket } = incoming
  const host = String(headers.host ?? headers[':authority'] ?? '')
  const path = originalUrl ?? url
  const address = `http://${host}${path}`
  if (hostnameOf(host) === undefined || !path.startsWith('/') || !URL.canParse(address)) {
    return refusal(400, 'bad-request', 'the URL or the header Host is invalid')
  }
  const body = method === 'POST' ? await bodyOf(incoming) : null
  if (body === undefined) return refusal(413, 'too-large', `at most ${MAX_BODY_BYTES} bytes`, { connection: 'close' })
  const copied = new Headers({ host })
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !name.startsWith(':')) copied.set(name, String(value))
  }
  return {
    request: new Request(address, { method, headers: copied, body }),
    basePath: originalUrl === undefined ? undefined : baseUrl,
    address: socket.remoteAddress ?? '',
    incoming,
  }
}

/** @returns undefined: it is too long */
async function bodyOf(incoming: ParsedRequest): Promise<string | undefined> {
  const { body } = incoming
  if (body !== undefined) return typeof body === 'string' ? body : JSON.stringify(body)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) {
      incoming.resume() // or the reader would not get the response
      return undefined
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Resolves when the response is sent, or its reader has left. */
export async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  if (!response.body) {
    outgoing.end()
    return
  }
  outgoing.flushHeaders()
  // It rejects when the reader leaves, which is how every stream ends.
  await pipeline(Readable.fromWeb(response.body as never), outgoing).catch(() => {})
}

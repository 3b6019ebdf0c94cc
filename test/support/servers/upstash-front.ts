import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from './free-port.js'

/** What happens to one request. Undefined: it is served. */
export type Fault =
  | { readonly is: 'request lost' | 'reply lost' | 'silence' }
  /** It runs so much later. */
  | { readonly is: 'late'; readonly ms: number }
  /** A copy of it runs so much later than itself. */
  | { readonly is: 'doubled'; readonly ms: number }
  /** Something in front of the server answers instead. */
  | { readonly is: 'answered'; readonly status: number; readonly body: string }

/** A server with the REST protocol of Upstash in front of a Redis: `POST /` with a command, `POST /pipeline` with several. */
export async function startUpstashFront(redisUrl: string): Promise<UpstashFront> {
  const front = new UpstashFront(await freePort(), redisUrl)
  await front.listen()
  return front
}

export class UpstashFront {
  readonly token = 'c2VjcmV0LXRva2Vu'
  readonly url: string
  /** How many requests arrived, and how many commands were in them. */
  readonly arrived = { requests: 0, commands: 0 }
  /** The requests to which there is no answer, and whose clients still wait for one. */
  readonly unanswered = new Set<ServerResponse>()
  /** Decides for each request. */
  fault: (commands: readonly (readonly string[])[]) => Fault | undefined = () => undefined
  readonly #port: number
  readonly #redis: Redis
  readonly #server: Server
  readonly #copies = new Set<Promise<unknown>>()
  #hasStopped = false

  constructor(port: number, redisUrl: string) {
    this.#port = port
    this.url = `http://127.0.0.1:${port}`
    this.#redis = new Redis(redisUrl)
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve))
  }

  /** Ends what is under way, and the copies that are still to run. */
  async stop(): Promise<void> {
    this.#hasStopped = true
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await Promise.all(this.#copies)
    this.#redis.disconnect()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    const answer = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    if (request.headers.authorization !== `Bearer ${this.token}`) return answer(401, { error: 'Unauthorized' })
    const body = JSON.parse(text)
    const isPipeline = request.url === '/pipeline'
    const commands: string[][] = isPipeline ? body : [body]
    this.arrived.requests++
    this.arrived.commands += commands.length

    const fault = this.fault(commands)
    if (fault?.is === 'silence') {
      this.unanswered.add(response.on('close', () => this.unanswered.delete(response)))
      return
    }
    if (fault?.is === 'request lost') return void response.destroy()
    if (fault?.is === 'answered') {
      return void response.writeHead(fault.status, { 'content-type': 'text/html' }).end(fault.body)
    }
    if (fault?.is === 'late') await pause(fault.ms)
    if (fault?.is === 'doubled') this.#copyLater(commands, fault.ms)
    const replies = await this.#run(commands, request.headers['upstash-encoding'] === 'base64')
    if (fault?.is === 'reply lost') return void response.destroy()
    const [first] = replies
    if (isPipeline) answer(200, replies)
    else answer(first && 'error' in first ? 400 : 200, first)
  }

  #copyLater(commands: readonly string[][], ms: number): void {
    const copy = pause(ms).then(async () => {
      if (!this.#hasStopped) await this.#run(commands, false)
    })
    this.#copies.add(copy)
    void copy.finally(() => this.#copies.delete(copy))
  }

  async #run(commands: readonly string[][], isEncoded: boolean): Promise<({ result: unknown } | { error: string })[]> {
    const running = commands.map(async ([name = '', ...words]) => {
      try {
        const result = await this.#redis.call(name, ...words)
        return { result: isEncoded ? encoded(result) : result }
      } catch (error) {
        return { error: (error as Error).message }
      }
    })
    return await Promise.all(running)
  }
}

/** Texts in base64, but not OK. */
function encoded(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(encoded)
  return typeof result === 'string' && result !== 'OK' ? Buffer.from(result).toString('base64') : result
}

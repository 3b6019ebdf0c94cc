import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.js'
import { FrameCutter, wordsOf } from './resp-frames.js'

/**
 * Which requests a fault is for. `request` is the command with its arguments, joined by spaces, the command in
 * capitals: `EVALSHA 1fa2… 1 lock:a 30000 …`.
 */
export type Match = (request: string) => boolean

interface Weather {
  readonly requests: 'pass' | 'hold'
  readonly replies: 'pass' | 'hold' | 'lose'
  readonly requestDelayMs: number
  readonly replyDelayMs: number
  readonly delayed: Match
}

interface Fault {
  readonly loses: 'request' | 'reply'
  readonly match: Match
  readonly happened: (request: string) => void
}

const ANY: Match = () => true
const FAIR: Weather = { requests: 'pass', replies: 'pass', requestDelayMs: 0, replyDelayMs: 0, delayed: ANY }

/**
 * Resets a connection (RST), or merely closes it while its own FIN is being sent: there `resetAndDestroy` fails with EINVAL
 * and never closes the socket, so `close` is never emitted and Node 24 spins in its clean-up when the process exits.
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy()
  else socket.resetAndDestroy()
}

/** A TCP proxy to a Redis on 127.0.0.1, on a free port, that passes everything by default. */
export async function startProxy(targetPort: number): Promise<TcpProxy> {
  const proxy = new TcpProxy(await freePort(), targetPort)
  await proxy.accept()
  return proxy
}

/**
 * A network that fails on command. It reads the protocol, so that a fault hits exactly one request: of a pipeline, what
 * came before has its reply and what came after never reaches Redis. A connection that speaks no RESP (TLS) is passed
 * chunk by chunk.
 */
export class TcpProxy implements AsyncDisposable {
  readonly port: number
  readonly url: string
  #targetPort: number
  readonly #listener: Server
  readonly #connections = new Set<Connection>()
  #weather = FAIR
  #faults: Fault[] = []
  #dropped: Promise<string> | undefined
  #requests: Buffer[] | undefined

  constructor(port: number, targetPort: number) {
    this.port = port
    this.url = `redis://127.0.0.1:${port}`
    this.#targetPort = targetPort
    this.#listener = createServer({ noDelay: true }, (client) => {
      const server = connect({ port: this.#targetPort, host: '127.0.0.1', noDelay: true })
      const connection = new Connection(this, client, server, () => this.#connections.delete(connection))
      this.#connections.add(connection)
    })
  }

  get targetPort(): number {
    return this.#targetPort
  }

  /** New connections go to another server; those that are open stay where they are. */
  moveTo(targetPort: number): void {
    this.#targetPort = targetPort
  }

  /** Client connections that are open now. */
  get connections(): number {
    return [...this.#connections].filter((connection) => connection.isOpen).length
  }

  /** Resolves with the request once the fault that was armed last has happened. */
  get dropped(): Promise<string> {
    if (!this.#dropped) throw new Error('no fault was armed: call dropNextReply() or dropNextRequest() first')
    return this.#dropped
  }

  /** Every request from now on, as it was sent. */
  record(): readonly Buffer[] {
    this.#requests = []
    return this.#requests
  }

  /** What passes at the moment. */
  get weather(): Weather {
    return this.#weather
  }

  /** Heals everything: no faults, what was held is delivered, connections that lost a reply to `mute` are reset. */
  pass(): void {
    this.#faults = []
    this.#change(FAIR)
  }

  /**
   * Adds `ms` to every round trip, half of it each way.
   * @param match given: only these requests wait, all of `ms`, and with them what follows on the same connection
   */
  delay(ms: number, match?: Match): void {
    const [requestDelayMs, replyDelayMs] = match ? [ms, 0] : [ms / 2, ms / 2]
    this.#change({ ...FAIR, requestDelayMs, replyDelayMs, delayed: match ?? ANY })
  }

  /** Nothing passes either way. It is held, as TCP would send it again: `pass` delivers it. */
  freeze(): void {
    this.#change({ ...FAIR, requests: 'hold', replies: 'hold' })
  }

  /** Requests pass, replies and messages are lost; their connections are reset when the mode changes. */
  mute(): void {
    this.#change({ ...FAIR, replies: 'lose' })
  }

  /** Requests pass, replies and messages are late: `pass` delivers them. */
  holdReplies(): void {
    this.#change({ ...FAIR, replies: 'hold' })
  }

  /** The connections that are open now go silent for good, without FIN or RST; later ones work. @returns how many */
  silence(): number {
    for (const connection of this.#connections) connection.silence()
    return this.#connections.size
  }

  /** Once: the next matching request reaches Redis; its reply is swallowed and the client's connection reset (RST). */
  dropNextReply(match: Match = ANY): void {
    this.#arm('reply', match)
  }

  /** Once: the next matching request is not forwarded, and the client's connection is reset (RST). */
  dropNextRequest(match: Match = ANY): void {
    this.#arm('request', match)
  }

  /**
   * Resets every connection for its client. What the client had sent and was held (`freeze`) reaches Redis after `ms`, when
   * the client has long repeated it elsewhere: as TCP delivers what waited in the buffers of a network that was away.
   */
  orphan(ms: number): void {
    for (const connection of this.#connections) connection.orphan(ms)
  }

  /** Resets every connection, now. */
  cutAll(): void {
    for (const connection of this.#connections) connection.reset()
  }

  /** From now on new connections are refused (ECONNREFUSED); open ones stay. */
  refuse(): void {
    if (this.#listener.listening) this.#listener.close()
  }

  /** Takes new connections again, on the same port. */
  async accept(): Promise<void> {
    if (this.#listener.listening) return
    this.#listener.listen(this.port, '127.0.0.1')
    await once(this.#listener, 'listening')
  }

  /** Ends the listener and all connections. Stopping twice is harmless. */
  async stop(): Promise<void> {
    this.refuse()
    const closed = [...this.#connections].map((connection) => connection.closed)
    this.cutAll()
    await Promise.all(closed)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Called with each request that a client has sent. */
  received(frame: Buffer): void {
    this.#requests?.push(frame)
  }

  /** The armed fault for this request, which is thereby used up. */
  takeFault(request: string): Fault | undefined {
    const index = this.#faults.findIndex((fault) => fault.match(request))
    return index < 0 ? undefined : this.#faults.splice(index, 1)[0]
  }

  #arm(loses: Fault['loses'], match: Match): void {
    this.#dropped = new Promise((happened) => this.#faults.push({ loses, match, happened }))
  }

  #change(weather: Weather): void {
    this.#weather = weather
    for (const connection of this.#connections) connection.weatherChanged()
  }
}

interface Request {
  readonly text: string
  readonly command: string
  /** How many replies are still to come: SUBSCRIBE has one for each channel. */
  repliesDue: number
  fault: Fault | undefined
}

const SUBSCRIBING = /^[SP]?(UN)?SUBSCRIBE$/
const MESSAGE = /^[SP]?MESSAGE$/

class Connection {
  /** Resolved when both sides are closed. */
  readonly closed: Promise<unknown>
  readonly #proxy: TcpProxy
  readonly #client: Socket
  readonly #server: Socket
  readonly #requests: Lane
  readonly #replies: Lane
  readonly #requestCutter = new FrameCutter()
  readonly #replyCutter = new FrameCutter()
  readonly #unanswered: Request[] = []
  #speaksResp: boolean | undefined
  #subscribed = false
  #lostReplies = false
  #isSilent = false
  /** What the client sent before it was cut off is still on its way. */
  #isLate = false
  /** A fault was decided: what the client sends behind it goes nowhere. */
  #deaf = false

  constructor(proxy: TcpProxy, client: Socket, server: Socket, onClosed: () => void) {
    this.#proxy = proxy
    this.#client = client
    this.#server = server
    this.#requests = new Lane(() => this.#isLate || proxy.weather.requests === 'hold')
    this.#replies = new Lane(() => proxy.weather.replies === 'hold')
    this.closed = Promise.all([
      new Promise((resolve) => client.once('close', resolve)),
      new Promise((resolve) => server.once('close', resolve)),
    ]).then(onClosed)
    client.on('error', () => {}).on('data', (chunk) => this.#isSilent || this.#fromClient(chunk))
    server.on('error', () => {}).on('data', (chunk) => this.#isSilent || this.#fromServer(chunk))
    client.once('close', () => {
      for (const { fault, text } of this.#unanswered) fault?.happened(text)
      this.#requests.put(() => server.destroySoon())
    })
    server.once('close', () => this.#replies.put(() => client.destroySoon()))
  }

  get isOpen(): boolean {
    return !this.#client.destroyed
  }

  silence(): void {
    this.#isSilent = true
  }

  orphan(ms: number): void {
    this.#isLate = true
    reset(this.#client)
    setTimeout(() => {
      this.#isLate = false
      this.#requests.flush()
    }, ms).unref()
  }

  reset(): void {
    reset(this.#client)
    this.#server.destroy()
    this.#requests.clear()
    this.#replies.clear()
  }

  weatherChanged(): void {
    if (this.#lostReplies && this.#proxy.weather.replies !== 'lose') {
      this.reset() // later replies would be taken for those that were lost
    } else {
      this.#requests.flush()
      this.#replies.flush()
    }
  }

  #fromClient(chunk: Buffer): void {
    this.#speaksResp ??= (chunk[0] ?? 0) >= 0x20
    for (const frame of this.#speaksResp ? this.#requestCutter.cut(chunk) : [chunk]) {
      if (this.#deaf) return
      this.#request(frame)
    }
  }

  #request(frame: Buffer): void {
    this.#proxy.received(frame)
    const request = this.#read(frame)
    const { weather } = this.#proxy
    this.#subscribed ||= SUBSCRIBING.test(request.command)
    this.#unanswered.push(request)
    this.#deaf = request.fault !== undefined
    if (request.fault?.loses !== 'request') {
      const delayMs = weather.requestDelayMs > 0 && weather.delayed(request.text) ? weather.requestDelayMs : 0
      this.#requests.put(() => this.#server.write(frame), delayMs)
    }
    this.#dropRequestIfNext()
  }

  #read(frame: Buffer): Request {
    const [first = '', ...rest] = wordsOf(frame)
    const command = first.toUpperCase()
    const text = [command, ...rest].join(' ')
    const repliesDue = SUBSCRIBING.test(command) ? Math.max(rest.length, 1) : 1
    return { text, command, repliesDue, fault: this.#proxy.takeFault(text) }
  }

  #fromServer(chunk: Buffer): void {
    for (const frame of this.#speaksResp ? this.#replyCutter.cut(chunk) : [chunk]) this.#reply(frame)
  }

  #reply(frame: Buffer): void {
    const { weather } = this.#proxy
    const request = this.#answeredBy(frame)
    if (request?.fault) {
      this.#resetFor(request)
    } else if (weather.replies === 'lose') {
      this.#lostReplies = true
    } else {
      this.#replies.put(() => this.#client.write(frame), weather.replyDelayMs)
    }
    this.#dropRequestIfNext()
  }

  /** The request that `frame` is the reply to; undefined for a message. */
  #answeredBy(frame: Buffer): Request | undefined {
    const [request] = this.#unanswered
    const mayBePush = frame[0] === 0x3e || (frame[0] === 0x2a && this.#subscribed)
    const kind = mayBePush ? (wordsOf(frame)[0] ?? '').toUpperCase() : ''
    if (MESSAGE.test(kind)) return undefined
    if (SUBSCRIBING.test(kind) && request?.command !== kind) return undefined // the server took a channel away
    if (request && (!SUBSCRIBING.test(kind) || --request.repliesDue <= 0)) this.#unanswered.shift()
    return request
  }

  /** A request that is to be lost resets the connection once all requests before it have their replies. */
  #dropRequestIfNext(): void {
    const [request] = this.#unanswered
    if (request?.fault?.loses === 'request') this.#resetFor(request)
  }

  #resetFor(request: Request): void {
    const { fault, text } = request
    request.fault = undefined
    this.#replies.put(() => {
      this.reset()
      fault?.happened(text)
    }, this.#proxy.weather.replyDelayMs)
  }
}

/** One direction of one connection: what is put in comes out in order, when it is due and the lane is not held. */
class Lane {
  readonly #isHeld: () => boolean
  #waiting: { readonly run: () => void; readonly dueAt: number }[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(isHeld: () => boolean) {
    this.#isHeld = isHeld
  }

  put(run: () => void, delayMs = 0): void {
    this.#waiting.push({ run, dueAt: performance.now() + delayMs })
    this.flush()
  }

  flush(): void {
    clearTimeout(this.#timer)
    while (!this.#isHeld()) {
      const [next] = this.#waiting
      if (!next) return
      const early = next.dueAt - performance.now()
      if (early > 0) {
        this.#timer = setTimeout(() => this.flush(), Math.ceil(early))
        return
      }
      this.#waiting.shift()
      next.run()
    }
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#waiting = []
  }
}

// The Redis in memory as a server, for machines without redis-server.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { ReplyError } from '../../testing/keyspace.js'
import { MemoryRedis } from '../../testing/memory-redis.js'
import { SystemClock } from '../../util/clock.js'

/** The part of INFO that ioredis checks before it is ready. */
const INFO = 'redis_version:7.2.0\r\nredis_mode:standalone\r\nrole:master\r\nloading:0\r\n'

/** A Redis in memory, on a free local port, in this process: enough for the demo, and not a real Redis. */
export class EmbeddedRedis {
  readonly url: string
  readonly #server: Server
  readonly #connections: ReadonlySet<Socket>

  private constructor(server: Server, connections: ReadonlySet<Socket>) {
    this.url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
    this.#server = server
    this.#connections = connections
  }

  static async start(): Promise<EmbeddedRedis> {
    const clock = new SystemClock()
    const redis = new MemoryRedis(clock, Date.now() - clock.now())
    const connections = new Set<Socket>()
    const server = createServer((socket) => {
      connections.add(socket)
      new Connection(socket, redis)
      socket.once('close', () => connections.delete(socket))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new EmbeddedRedis(server, connections)
  }

  /** Stopping twice is harmless. */
  async stop(): Promise<void> {
    for (const socket of this.#connections) socket.destroy()
    if (this.#server.listening) await once(this.#server.close(), 'close')
  }
}

/** One connection, in RESP2. */
class Connection {
  readonly #socket: Socket
  readonly #redis: MemoryRedis
  readonly #channels = new Set<string>()
  /** Input that is not a whole command yet; each character is a byte. */
  #unread = ''

  constructor(socket: Socket, redis: MemoryRedis) {
    this.#socket = socket
    this.#redis = redis
    const disconnect = redis.connect((channel, message, isSharded) => {
      const isSubscribed = !isSharded && this.#channels.has(channel)
      if (isSubscribed) this.#write(['message', channel, message])
      return isSubscribed
    })
    socket.setNoDelay(true).setEncoding('latin1')
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', () => {}) // 'close' follows
    socket.once('close', disconnect)
  }

  #read(text: string): void {
    this.#unread += text
    for (let command = this.#nextCommand(); command; command = this.#nextCommand()) this.#run(command)
  }

  /** An array of texts: `*2\r\n$3\r\nGET\r\n$1\r\na\r\n`. */
  #nextCommand(): string[] | undefined {
    const words: string[] = []
    let at = 0
    const line = (): number => {
      const end = this.#unread.indexOf('\r\n', at)
      if (end < 0) return Number.NaN
      const number = Number(this.#unread.slice(at + 1, end))
      at = end + 2
      return number
    }
    const count = line()
    while (words.length < count) {
      const length = line()
      if (!(at + length + 2 <= this.#unread.length)) return undefined
      words.push(Buffer.from(this.#unread.slice(at, at + length), 'latin1').toString())
      at += length + 2
    }
    if (Number.isNaN(count)) return undefined
    this.#unread = this.#unread.slice(at)
    return words
  }

  #run([name = '', ...args]: readonly string[]): void {
    const verb = name.toLowerCase()
    if (verb === 'subscribe' || verb === 'unsubscribe') this.#subscribe(verb, args)
    else if (verb === 'ping') this.#write(this.#channels.size > 0 ? ['pong', ''] : 'PONG')
    else if (verb === 'info') this.#write(INFO)
    else if (verb === 'client' || verb === 'select') this.#write('OK')
    else this.#execute([name, ...(verb === 'set' ? inMs(args) : args)])
  }

  #subscribe(verb: 'subscribe' | 'unsubscribe', channels: readonly string[]): void {
    for (const channel of channels) {
      if (verb === 'subscribe') this.#channels.add(channel)
      else this.#channels.delete(channel)
      this.#write([verb, channel, this.#channels.size])
    }
  }

  #execute(command: readonly string[]): void {
    try {
      this.#write(this.#redis.execute(command))
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error
      this.#socket.write(`-${error.message.replaceAll('\n', ' ')}\r\n`)
    }
  }

  #write(reply: unknown): void {
    this.#socket.write(encoded(reply))
  }
}

/** The Redis in memory knows expiries in ms only. */
function inMs([key = '', value = '', unit, amount]: readonly string[]): string[] {
  if (unit === undefined) return [key, value]
  return unit.toLowerCase() === 'ex' ? [key, value, 'PX', `${amount}000`] : [key, value, unit, amount ?? '']
}

function encoded(reply: unknown): string {
  if (Array.isArray(reply)) return `*${reply.length}\r\n${reply.map(encoded).join('')}`
  if (typeof reply === 'number' || typeof reply === 'bigint') return `:${reply}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  return '$-1\r\n'
}

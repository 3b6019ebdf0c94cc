/**
 * A PostgreSQL that clients of the wire protocol can use: PGlite, which is PostgreSQL itself in WebAssembly, on a socket. It
 * needs no installation and no user but ours. It has one session, so a transaction keeps the other connections waiting.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { PGlite } from '@electric-sql/pglite'

/** The first message of a connection: a request to encrypt it, or the start of the session. */
const SSL_REQUEST = 80_877_103
const IN_NO_TRANSACTION = 'I'.charCodeAt(0)
/** Messages that a client waits for replies to. */
const AWAITED = /^[QS]$/

export async function startPostgres(): Promise<PostgresServer> {
  const server = new PostgresServer(await PGlite.create())
  await server.listen()
  return server
}

export class PostgresServer implements AsyncDisposable {
  /** For what the test itself does, outside of transactions of others. */
  readonly db: PGlite
  /** Called before each `BEGIN`, `COMMIT` and other command without parameters. */
  onCommand: (sql: string) => unknown = () => {}
  readonly #listener: Server
  readonly #sockets = new Set<Socket>()
  /** Settles when the session is free. */
  #session: Promise<unknown> = Promise.resolve()

  constructor(db: PGlite) {
    this.db = db
    this.#listener = createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket))
      void this.#serve(socket)
    })
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${(this.#listener.address() as AddressInfo).port}/postgres`
  }

  async listen(): Promise<void> {
    this.#listener.listen(0, '127.0.0.1')
    await once(this.#listener, 'listening')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close()
    for (const socket of this.#sockets) socket.destroy()
    await this.#session
    await this.db.close()
  }

  async #serve(socket: Socket): Promise<void> {
    let leaveSession: (() => void) | undefined
    let pending: Buffer[] = []
    try {
      for await (const message of messagesOf(socket)) {
        if (message.type === '') socket.write(message.code === SSL_REQUEST ? 'N' : GREETING)
        else pending.push(message.bytes)
        if (!AWAITED.test(message.type)) continue
        leaveSession ??= await this.#enterSession()
        if (message.type === 'Q') await this.onCommand(message.bytes.toString('utf8', 5, message.bytes.length - 1))
        const reply = await this.db.execProtocolRaw(Buffer.concat(pending))
        pending = []
        socket.write(reply)
        // Each reply ends with ReadyForQuery, and that with the state of the transaction.
        if (reply.at(-1) === IN_NO_TRANSACTION) leaveSession = void leaveSession()
      }
    } catch {
      // The client has gone.
    }
    if (leaveSession) await this.db.exec('ROLLBACK').finally(leaveSession)
  }

  async #enterSession(): Promise<() => void> {
    const before = this.#session
    let leave = (): void => {}
    this.#session = new Promise<void>((resolve) => {
      leave = resolve
    })
    await before
    return leave
  }
}

interface Message {
  /** Empty: the first ones of a connection, which have a code instead. */
  readonly type: string
  readonly code: number
  readonly bytes: Buffer
}

async function* messagesOf(socket: Socket): AsyncGenerator<Message> {
  let rest = Buffer.alloc(0)
  let hasStarted = false
  for await (const chunk of socket) {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const typeLength = hasStarted ? 1 : 0
      if (rest.length < typeLength + 4) break
      const length = typeLength + rest.readInt32BE(typeLength)
      if (rest.length < length) break
      const bytes = rest.subarray(0, length)
      rest = rest.subarray(length)
      const code: number = hasStarted ? 0 : bytes.readInt32BE(4)
      yield { type: hasStarted ? String.fromCharCode(bytes[0] as number) : '', code, bytes }
      hasStarted ||= code !== SSL_REQUEST
    }
  }
}

function reply(type: string, ...body: (string | number[])[]): Buffer {
  const content = Buffer.concat(body.map((part) => Buffer.from(part as string)))
  const length = Buffer.alloc(4)
  length.writeInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(type), length, content])
}

/** AuthenticationOk, what the server speaks, ReadyForQuery. */
const GREETING = Buffer.concat([
  reply('R', [0, 0, 0, 0]),
  reply('S', 'client_encoding\0UTF8\0'),
  reply('S', 'server_version\x0017.0\0'),
  reply('Z', 'I'),
])

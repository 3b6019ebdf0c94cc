import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../../support/servers/free-port.js'

/** Interval between two checks for the current master, ms. */
const LOOK_MS = 100

/** An address of ours that leads to a server: the one address of a managed service, or a way through NAT. */
export class Endpoint implements AsyncDisposable {
  readonly host: string
  readonly port: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #target: number
  #timer: NodeJS.Timeout | undefined

  static async start(target: number, host = '127.0.0.1', port?: number): Promise<Endpoint> {
    const endpoint = new Endpoint(target, host, port ?? (await freePort()))
    await once(endpoint.#server, 'listening')
    return endpoint
  }

  private constructor(target: number, host: string, port: number) {
    this.#target = target
    this.host = host
    this.port = port
    this.#server = createServer({ noDelay: true }, (client) => this.#forward(client)).listen(port, host)
  }

  /** New connections go to another server. Those to the one before are closed, or stay. */
  moveTo(target: number, { keepsOld = false } = {}): void {
    if (target === this.#target) return
    this.#target = target
    if (!keepsOld) this.#closeAll()
  }

  /** From now on it leads to the master, and closes connections to the one before. */
  follow(masterPort: () => Promise<number>): void {
    const look = async () => this.moveTo(await masterPort().catch(() => this.#target))
    this.#timer = setInterval(() => void look(), LOOK_MS)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#server.close()
    this.#closeAll()
  }

  #closeAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #forward(client: Socket): void {
    const server = connect({ port: this.#target, host: '127.0.0.1', noDelay: true })
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  }
}

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../support/free-port.js'

/** Interval between two checks for the current master, ms. */
const LOOK_MS = 100

/**
 * One address that leads to the master, as in managed services: when the master changes, connections to the old one are
 * closed, and new ones go to the new one.
 */
export class Endpoint implements AsyncDisposable {
  readonly host = '127.0.0.1'
  readonly port: number
  readonly #server: Server
  readonly #masterPort: () => Promise<number>
  readonly #sockets = new Set<Socket>()
  readonly #timer: NodeJS.Timeout
  #target = 0

  static async start(masterPort: () => Promise<number>): Promise<Endpoint> {
    const endpoint = new Endpoint(await freePort(), masterPort)
    await Promise.all([once(endpoint.#server, 'listening'), endpoint.#look()])
    return endpoint
  }

  private constructor(port: number, masterPort: () => Promise<number>) {
    this.port = port
    this.#masterPort = masterPort
    this.#server = createServer({ noDelay: true }, (client) => this.#forward(client)).listen(port, this.host)
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#server.close()
    this.#closeAll()
  }

  async #look(): Promise<void> {
    const port = await this.#masterPort().catch(() => this.#target)
    if (port === this.#target) return
    this.#target = port
    this.#closeAll()
  }

  #closeAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #forward(client: Socket): void {
    const server = connect({ port: this.#target, host: this.host, noDelay: true })
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

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './program.js'
import type { Place, RedisPlace } from './redis-place.js'

/** How much longer a round trip takes, ms. */
const LINK_MS = 1

/** A Redis behind a link on which requests take a millisecond, as between two data centres of a region. */
export class FarPlace implements Place {
  readonly url: string
  readonly isCluster = false
  readonly #redis: RedisPlace
  readonly #link: Server
  readonly #sockets = new Set<Socket>()

  private constructor(redis: RedisPlace, port: number) {
    this.#redis = redis
    this.url = `redis://127.0.0.1:${port}`
    this.#link = createServer({ noDelay: true }, (client) => this.#join(client)).listen(port, '127.0.0.1')
  }

  static async start(redis: RedisPlace): Promise<FarPlace> {
    const place = new FarPlace(redis, await freePort())
    await once(place.#link, 'listening')
    return place
  }

  #join(client: Socket): void {
    const server = connect({ port: this.#redis.port, host: '127.0.0.1', noDelay: true })
    client.on('data', (chunk) => setTimeout(() => server.write(chunk), LINK_MS))
    server.on('data', (chunk) => client.write(chunk))
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
  }

  empty(): Promise<unknown> {
    return this.#redis.empty()
  }

  cpuMs(): Promise<number> {
    return this.#redis.cpuMs()
  }

  countCommands<T>(fn: () => Promise<T>): Promise<[count: number, result: T]> {
    return this.#redis.countCommands(fn)
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#link.close(resolve))
  }
}

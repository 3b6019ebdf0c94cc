import { type RedisServer, startRedis } from '../../support/servers/redis-server.js'
import { sleep } from '../../support/wait-until.js'
import type { Place } from '../place.js'
import type { Network } from './network.js'
import type { Fault, Topology } from './topology.js'

/** What Redis has acknowledged survives its process. */
const KEEP_DATA = ['--appendonly', 'yes', '--appendfsync', 'no']

/** One server, and three more for red locks. */
export class SingleTopology implements Topology {
  readonly name = 'single'
  readonly isReplicated = false
  readonly servers: readonly RedisServer[]
  readonly redServers: readonly RedisServer[]
  readonly faults: readonly Fault[]
  readonly #server: RedisServer

  static async start(): Promise<SingleTopology> {
    const server = await startRedis({ args: KEEP_DATA })
    return new SingleTopology(server, await Promise.all([1, 2, 3].map(() => startRedis())))
  }

  private constructor(server: RedisServer, redServers: readonly RedisServer[]) {
    this.#server = server
    this.servers = [server]
    this.redServers = redServers
    this.faults = faultsOf(server)
  }

  get direct(): { url: string } {
    return { url: this.#server.url }
  }

  openPlace(): Place {
    return { url: this.#server.url, file: undefined }
  }

  reach(network: Network): { url: string } {
    return { url: network.url(this.#server.port) }
  }

  async heal(): Promise<void> {
    this.#server.thaw()
    if (!this.#server.isUp) await this.#server.restart()
    await this.#server.admin.config('SET', 'maxmemory', '0')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.servers, ...this.redServers].map((server) => server.stop()))
  }
}

function faultsOf(server: RedisServer): Fault[] {
  return [
    {
      name: 'server-stopped',
      title: 'the server stands still for up to a second (SIGSTOP)',
      weight: 3,
      isOfServers: true,
      async inject({ random }) {
        server.freeze()
        await sleep(50 + random(900))
        server.thaw()
      },
    },
    {
      name: 'restart',
      title: 'the server is killed and starts again with its data',
      weight: 1,
      isOfServers: true,
      async inject({ random }) {
        await server.kill()
        await sleep(random(500))
        await server.restart()
      },
    },
    {
      name: 'full',
      title: 'the server is out of memory for up to half a second',
      weight: 1,
      isOfServers: true,
      async inject({ random }) {
        await server.admin.config('SET', 'maxmemory', '1')
        await sleep(50 + random(450))
        await server.admin.config('SET', 'maxmemory', '0')
      },
    },
    {
      name: 'lost-locks',
      title: 'the server loses everything but permits',
      weight: 1,
      isOfServers: true,
      isOptional: true,
      forgets: 'locks',
      async inject() {
        const keys = await server.admin.keys('*')
        const lost = keys.filter((key) => !/permits|semaphore/.test(key))
        if (lost.length > 0) await server.admin.del(...lost)
      },
    },
  ]
}

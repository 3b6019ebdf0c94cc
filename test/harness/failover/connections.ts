import type { RedisServer } from '../../support/servers/redis-server.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import type { Topology } from './topology.js'

/** How long clients may take to close what they no longer need, ms. */
const CLOSE_MS = 10_000
const LOOK_MS = 100
const SENTINELS = 'Sentinels'
/** Sentinels are asked on connections that stay a while: how many times as many as at first there may be. */
const TO_SENTINELS = 2

/** For commands and for messages. */
const OF_NODE_REDIS = 2

/** The connections of the clients of each way, which log in as users of their own, and of all together to Sentinels. */
export class Connections {
  readonly #topology: Topology
  /** How many there may be. */
  readonly #most = new Map<string, number>()

  constructor(topology: Topology) {
    this.#topology = topology
  }

  /** Before a fault. The first count decides, so that what each failover leaves adds up. */
  async count(ways: readonly string[]): Promise<void> {
    for (const way of [...ways, SENTINELS]) {
      if (!this.#most.has(way)) this.#most.set(way, this.#mostFor(way, (await this.#of(way)).length))
    }
  }

  /** After the fault: where clients have too many, and still do after a while. */
  async leftover(ways: readonly string[]): Promise<string[]> {
    let found: string[] = []
    const isGone = async () => {
      found = (await Promise.all([...ways, SENTINELS].map((way) => this.#excess(way)))).flat()
      if (found.length > 0) await sleep(LOOK_MS)
      return found.length === 0
    }
    await waitUntil(isGone, { timeoutMs: CLOSE_MS }).catch(() => {})
    return found
  }

  #mostFor(way: string, count: number): number {
    if (way === SENTINELS) return TO_SENTINELS * count
    const { name, servers } = this.#topology
    // node-redis and valkey-glide sometimes keep an unused connection to a node of a cluster.
    if (name === 'cluster') return count + servers.length
    // Its sentinel ends clients that have no socket yet: they connect nevertheless, and stay until their server closes them.
    return name === 'sentinel' && way.startsWith('node-redis') ? count + OF_NODE_REDIS : count
  }

  async #excess(way: string): Promise<string[]> {
    const most = this.#most.get(way) ?? 0
    const now = await this.#of(way)
    return now.length > most ? [`${way}: ${now.length} connections instead of at most ${most}: ${now.join(', ')}`] : []
  }

  /** Port and latest command of each. */
  async #of(way: string): Promise<string[]> {
    const { servers, sentinels = [] } = this.#topology
    const lines = await clientsOf(way === SENTINELS ? sentinels : servers)
    return lines.filter((line) => way === SENTINELS || line.includes(` user=${way} `)).map(inShort)
  }
}

async function clientsOf(servers: readonly RedisServer[]): Promise<string[]> {
  return (await Promise.all(servers.filter(({ isUp }) => isUp).map((server) => server.connections()))).flat()
}

function inShort(line: string): string {
  const [, port = ''] = / laddr=\S+:(\d+)/.exec(line) ?? []
  const [, command = ''] = / cmd=(\S+)/.exec(line) ?? []
  return `${port} ${command}`
}

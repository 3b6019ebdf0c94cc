import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../../support/servers/free-port.js'
import type { Cluster } from '../../support/servers/redis-cluster.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import { waitUntil } from '../../support/wait-until.js'

interface Link {
  readonly from: RedisServer | undefined
  readonly to: RedisServer
  readonly sockets: readonly Socket[]
}

/**
 * The bus between the nodes of a cluster goes through proxies, so that one node can be cut off from the others. Each
 * node connects from its own loopback address, by which the proxies know it; Linux has those without any set-up.
 */
export class ClusterBus implements AsyncDisposable {
  readonly #cluster: Cluster
  readonly #proxies = new Map<RedisServer, { port: number; server: Server }>()
  readonly #links = new Set<Link>()
  #isolated: RedisServer | undefined

  static async start(cluster: Cluster): Promise<ClusterBus> {
    const bus = new ClusterBus(cluster)
    for (const node of cluster.nodes) await bus.#listenFor(node)
    await bus.#announce()
    return bus
  }

  private constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  /** Cuts the node off from the others, in both directions. */
  isolate(node: RedisServer): void {
    this.#isolated = node
    this.#cut((link) => this.#isIsolated(link))
  }

  reunite(): void {
    this.#isolated = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { server } of this.#proxies.values()) server.close()
    this.#cut(() => true)
  }

  #cut(isMeant: (link: Link) => boolean): void {
    for (const link of this.#links) if (isMeant(link)) for (const socket of link.sockets) socket.destroy()
  }

  async #listenFor(node: RedisServer): Promise<void> {
    const port = await freePort()
    const server = createServer({ noDelay: true }, (from) => this.#forward(from, node)).listen(port, node.host)
    await once(server, 'listening')
    this.#proxies.set(node, { port, server })
  }

  /** Announces the proxies, also for restarts of a node. Resolves when all nodes know them. */
  async #announce(): Promise<void> {
    for (const [node, { port }] of this.#proxies) {
      const { admin } = node
      // Redis treats clients from loopback addresses other than 127.0.0.1 as remote.
      await admin.config('SET', 'protected-mode', 'no')
      await admin.config('SET', 'bind-source-addr', this.#sourceOf(node))
      await admin.config('SET', 'cluster-announce-ip', node.host)
      await admin.config('SET', 'cluster-announce-bus-port', port)
      await admin.config('REWRITE')
    }
    // Existing connections reconnect from the right address.
    this.#cut(({ from }) => from === undefined)
    await waitUntil(async () => (await this.#unannounced()) === '', {
      timeoutMs: 10_000,
      message: 'the bus has proxies',
    })
    await this.#cluster.settled()
  }

  #forward(incoming: Socket, to: RedisServer): void {
    const from = this.#cluster.nodes.find((node) => this.#sourceOf(node) === incoming.remoteAddress)
    const outgoing = connect({ port: to.ports['--cluster-port'] ?? 0, host: to.host, noDelay: true })
    const link: Link = { from, to, sockets: [incoming, outgoing] }
    this.#links.add(link)
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      socket.on('error', () => {})
      socket.once('close', () => {
        this.#links.delete(link)
        other.destroy()
      })
      socket.pipe(other)
    }
    if (this.#isIsolated(link)) incoming.destroy()
  }

  #isIsolated({ from, to }: Link): boolean {
    return this.#isolated !== undefined && (from === this.#isolated || to === this.#isolated)
  }

  #sourceOf(node: RedisServer): string {
    return `127.0.0.${this.#cluster.nodes.indexOf(node) + 2}`
  }

  /** A node that does not yet know all proxies, or ''. */
  async #unannounced(): Promise<string> {
    const { nodes } = this.#cluster
    for (const { admin } of nodes) {
      const known = String(await admin.call('CLUSTER', 'NODES'))
      // A name of the node may follow.
      const missing = nodes.find(
        (node) => !new RegExp(`:${node.port}@${this.#proxies.get(node)?.port}[ ,]`).test(known),
      )
      if (missing) return String(missing.port)
    }
    return ''
  }
}

import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Place, RedisPlace } from './redis-place.js'

const MASTERS = 3
const READY_MS = 20_000

/** Three masters with a replica each. */
export class ClusterPlace implements Place {
  readonly url: string
  readonly isCluster = true
  readonly #nodes: readonly RedisPlace[]
  readonly #masters: readonly RedisPlace[]

  private constructor(nodes: readonly RedisPlace[]) {
    this.url = nodes.map(({ url }) => url)[0] ?? ''
    this.#nodes = nodes
    this.#masters = nodes.slice(0, MASTERS)
  }

  static async start(): Promise<ClusterPlace> {
    const start = () => RedisPlace.start('--cluster-enabled', 'yes', '--repl-diskless-sync-delay', '0')
    const nodes = await Promise.all(Array.from({ length: 2 * MASTERS }, start))
    const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`)
    const options = ['--cluster-replicas', '1', '--cluster-yes']
    await promisify(execFile)('redis-cli', ['--cluster', 'create', ...addresses, ...options])
    for (const endsAt = performance.now() + READY_MS; !(await areReady(nodes)); await sleep(100)) {
      if (performance.now() > endsAt) throw new Error('the cluster is not ready')
    }
    return new ClusterPlace(nodes)
  }

  async empty(): Promise<void> {
    await Promise.all(this.#masters.map((node) => node.empty()))
  }

  /** Of the replicas as well. */
  async cpuMs(): Promise<number> {
    const times = await Promise.all(this.#nodes.map((node) => node.cpuMs()))
    return times.reduce((total, ms) => total + ms)
  }

  async countCommands<T>(fn: () => Promise<T>): Promise<[count: number, result: T]> {
    type Counting = () => Promise<[count: number, result: T]>
    const counting = this.#masters.reduceRight<Counting>(
      (inner, node) => async () => {
        const [count, [others, result]] = await node.countCommands(inner)
        return [count + others, result]
      },
      async () => [0, await fn()],
    )
    return await counting()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.stop()))
  }
}

async function areReady(nodes: readonly RedisPlace[]): Promise<boolean> {
  const states = await Promise.all(
    nodes.map(async ({ admin }) => `${await admin.cluster('INFO')}${await admin.info('replication')}`),
  )
  return states.every(
    (state) => /cluster_state:ok/.test(state) && /(master_link_status:up|connected_slaves:1)/.test(state),
  )
}

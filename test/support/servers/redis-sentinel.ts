import { ADMIN } from '../rights.js'
import { waitUntil } from '../wait-until.js'
import { IS_BEFORE_7 } from './engine.js'
import { type RedisServer, startRedis } from './redis-server.js'

/** What the sentinels call the master. */
export const MASTER_NAME = 'holdfast'
/** As whom they log in to the servers, where it may do all. */
export const SENTINEL_USER = 'sentinel'
const SETTLE_MS = IS_BEFORE_7 ? 60_000 : 20_000 // see HASTE
/**
 * When a master counts as down, one sentinel after the other. All at once they would each vote for themselves, and repeat
 * a vote without a winner only after twice the failover timeout. So a dead master is replaced within 1 to 3 s.
 */
const downAfterMs = (sentinel: number) => 900 + 200 * sentinel
const FAILOVER_TIMEOUT_MS = 2_000
const REPLICATION_ARGS = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
/**
 * Sentinels exchange their state more often than by default, so that they find all replicas, and demote an old master
 * that came back, in about a second instead of ten. The first ping to a new master comes a ping period after the switch:
 * with the usual second they would take it for down at once. But no replica is chosen whose last INFO is older than five
 * ping periods, and those come once a second. A stalled machine does not put them to sleep for half a minute.
 */
const HASTE = ['ping-period', 300, 'info-period', 500, 'publish-period', 250, 'tilt-period', 1_000]
/** An order is dropped when no replica looks good at that very moment. */
const ORDER_AGAIN_MS = 3_000

export interface SentinelOptions {
  /** Default 3. */
  readonly sentinels?: number
  /** Default 2. */
  readonly replicas?: number
  /** Further arguments of the master and the replicas, such as `['--appendonly', 'yes']`. */
  readonly args?: readonly string[]
  /** The name of this machine, by which servers and sentinels then know and name each other. Default: by address. */
  readonly hostName?: string
  /** Further lines of the configuration of the sentinels. Among themselves they are the admin of the tests. */
  readonly sentinelConfig?: string
}

/**
 * A master, replicas and sentinels of our own on free ports of 127.0.0.1, without persistence; they end with this
 * process. Resolved when the sentinels know the master, the replicas and each other, and the replicas are in step.
 */
export async function startSentinels(options: SentinelOptions = {}): Promise<SentinelGroup> {
  const { sentinels = 3, replicas = 2, args = [], hostName, sentinelConfig = '' } = options
  const group = new SentinelGroup()
  try {
    await group.start(sentinels, replicas, [...REPLICATION_ARGS, ...args], sentinelConfig, hostName)
    return group
  } catch (error) {
    await group.stop()
    throw error
  }
}

export interface SentinelFailover {
  /** The master before and the one after. */
  readonly from: RedisServer
  readonly to: RedisServer
  /** From the command or the fault until all running sentinels named the new master and it took writes, ms. */
  readonly ms: number
}

/** One master with its replicas, and the sentinels that watch it. */
export class SentinelGroup implements AsyncDisposable {
  readonly masterName = MASTER_NAME
  readonly #servers: RedisServer[] = []
  readonly #sentinels: RedisServer[] = []
  #down: { master: RedisServer; at: number } | undefined

  /** The sentinels: host, port and an admin connection each. */
  get sentinels(): readonly RedisServer[] {
    return this.#sentinels
  }

  /** Master and replicas, in whatever role they are now. */
  get servers(): readonly RedisServer[] {
    return this.#servers
  }

  /** The admin connections of master and replicas. */
  get admins(): readonly RedisServer['admin'][] {
    return this.#servers.map((server) => server.admin)
  }

  /** For `startSentinels`. */
  async start(
    sentinels: number,
    replicas: number,
    args: string[],
    sentinelConfig: string,
    hostName?: string,
  ): Promise<void> {
    if (hostName) args.push('--replica-announce-ip', hostName)
    const naming = hostName
      ? `sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\nsentinel announce-ip ${hostName}\n`
      : ''
    // With a configuration file a server that changed its role keeps it over a restart.
    const user = `user ${SENTINEL_USER} on nopass ~* &* +@all\n`
    const master = await startRedis({ args, config: user })
    this.#servers.push(master)
    const replica = { args, config: `${user}replicaof ${master.host} ${master.port}\n` }
    await startInto(this.#servers, replicas, () => replica)
    const config = (sentinel: number) => `
${sentinelConfig}
sentinel sentinel-user ${ADMIN}
sentinel sentinel-pass none
${naming}sentinel monitor ${MASTER_NAME} ${hostName ?? master.host} ${master.port} ${Math.floor(sentinels / 2) + 1}
sentinel down-after-milliseconds ${MASTER_NAME} ${downAfterMs(sentinel)}
sentinel failover-timeout ${MASTER_NAME} ${FAILOVER_TIMEOUT_MS}
sentinel auth-user ${MASTER_NAME} ${SENTINEL_USER}
sentinel auth-pass ${MASTER_NAME} none
sentinel parallel-syncs ${MASTER_NAME} ${Math.max(replicas, 1)}
`
    await startInto(this.#sentinels, sentinels, (at) => ({ args: ['--sentinel'], config: config(at) }))
    await Promise.all(this.#sentinels.map(hurry))
    await this.settled()
  }

  /** The master now, as the first running sentinel says. */
  async master(): Promise<RedisServer> {
    const [sentinel] = this.#upSentinels()
    if (!sentinel) throw new Error('no sentinel is running')
    const master = await this.#masterSeenBy(sentinel)
    if (!master) throw new Error('the sentinels name a stranger')
    return master
  }

  /** Running servers that are not the master. */
  async replicas(): Promise<RedisServer[]> {
    const master = await this.master()
    return this.#servers.filter((server) => server !== master && server.isUp)
  }

  /**
   * Has the sentinels replace the master. Resolved when all name the new one and the old one follows it: the next
   * failover may come at once. Until then the old master still takes writes, which are lost.
   */
  async failover(): Promise<SentinelFailover> {
    const from = await this.master()
    const startedAt = performance.now()
    let orderedAt = Number.NEGATIVE_INFINITY
    const to = await this.#successorOf(from, async () => {
      if (performance.now() - orderedAt < ORDER_AGAIN_MS || (await this.master()) !== from) return
      if (await this.#orderFailover()) orderedAt = performance.now()
    })
    const ms = performance.now() - startedAt
    await this.settled()
    return { from, to, ms }
  }

  /** Ends the master with SIGKILL, and resolves to it when it is gone. */
  async killMaster(): Promise<RedisServer> {
    const master = await this.master()
    this.#down = { master, at: performance.now() }
    await master.kill()
    return master
  }

  /** Stops the master where it stands (SIGSTOP), and returns it. After `thaw` it is a master of its own for a while. */
  async freezeMaster(): Promise<RedisServer> {
    const master = await this.master()
    this.#down = { master, at: performance.now() }
    master.freeze()
    return master
  }

  /** Resolved when the master that was killed or frozen last is replaced and the other replicas follow the new one. */
  async waitForFailover(): Promise<SentinelFailover> {
    if (!this.#down) throw new Error('call killMaster() or freezeMaster() first')
    const { master: from, at } = this.#down
    const to = await this.#successorOf(from)
    const ms = performance.now() - at
    await this.settled()
    return { from, to, ms }
  }

  /**
   * Starts a server or a sentinel again. Resolved when it has found its place: a master that was replaced meanwhile is a
   * replica then.
   */
  async restart(server: RedisServer): Promise<void> {
    await server.restart()
    if (this.#sentinels.includes(server)) await hurry(server)
    await this.settled()
  }

  /** Thaws what is frozen and starts what was killed. Roles stay as they are now. */
  async heal(): Promise<void> {
    const all = [...this.#servers, ...this.#sentinels]
    for (const server of all) if (!server.isUp) server.thaw()
    for (const server of all.filter(({ isUp }) => !isUp)) {
      await server.restart()
      if (this.#sentinels.includes(server)) await hurry(server)
    }
    await this.settled()
  }

  /** Deletes all keys. */
  async flush(): Promise<void> {
    await (await this.master()).admin.flushall()
  }

  /** Connections of clients to any running server or sentinel, as CLIENT LIST shows them. */
  async connections(): Promise<string[]> {
    const up = [...this.#servers, ...this.#sentinels].filter(({ isUp }) => isUp)
    return (await Promise.all(up.map((server) => server.connections()))).flat()
  }

  /**
   * Resolved when all running sentinels name the same running master, know all replicas and each other, and all running
   * replicas are in step with it.
   */
  async settled(): Promise<void> {
    let why = ''
    await waitUntil(
      async () => {
        why = await this.#whatIsUnsettled()
        return why === ''
      },
      { timeoutMs: SETTLE_MS, message: () => `the sentinels should settle: ${why}` },
    )
  }

  /** Ends all servers and sentinels with their admin connections and directories. Stopping twice is harmless. */
  async stop(): Promise<void> {
    await Promise.all([...this.#servers, ...this.#sentinels].map((server) => server.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #orderFailover(): Promise<boolean> {
    const [sentinel] = this.#upSentinels()
    try {
      await sentinel?.admin.call('SENTINEL', 'FAILOVER', MASTER_NAME)
      return true
    } catch (error) {
      // Too early: it has one under way, or has not looked at the replicas for a moment.
      if (/INPROG|NOGOODSLAVE/.test(String(error))) return false
      throw error
    }
  }

  async #successorOf(old: RedisServer, urge?: () => Promise<void>): Promise<RedisServer> {
    return waitUntil(
      async () => {
        await urge?.()
        const named = await Promise.all(this.#upSentinels().map((sentinel) => this.#masterSeenBy(sentinel)))
        const [first] = named
        if (!first || first === old || named.some((one) => one !== first)) return undefined
        return (await roleOf(first)) === 'master' && first
      },
      { timeoutMs: SETTLE_MS, message: `the sentinels should replace ${old.port}` },
    )
  }

  async #masterSeenBy({ admin }: RedisServer): Promise<RedisServer | undefined> {
    const [, port] = (await admin.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as string[]
    return this.#servers.find((server) => server.port === Number(port))
  }

  #upSentinels(): RedisServer[] {
    return this.#sentinels.filter(({ isUp }) => isUp)
  }

  async #whatIsUnsettled(): Promise<string> {
    const master = await this.master()
    if (!master.isUp) return `master ${master.port} is down`
    if ((await roleOf(master)) !== 'master') return `${master.port} is not a master yet`
    for (const sentinel of this.#upSentinels()) {
      const why = await this.#whatIsMissingAt(sentinel, master)
      if (why !== '') return `sentinel ${sentinel.port}: ${why}`
    }
    for (const server of this.#servers) {
      if (server === master || !server.isUp) continue
      if (!(await server.follows(master))) return `${server.port} is not in step with ${master.port}`
    }
    return ''
  }

  async #whatIsMissingAt({ port: ownPort, admin }: RedisServer, master: RedisServer): Promise<string> {
    const [masters, replicas, sentinels] = await Promise.all(
      ['MASTERS', 'REPLICAS', 'SENTINELS'].map(async (kind) => {
        const args = kind === 'MASTERS' ? [kind] : [kind, MASTER_NAME]
        return flagsByPort(await admin.call('SENTINEL', ...args))
      }),
    )
    const missing = (seen: Map<number, string> | undefined, expected: readonly RedisServer[], flags: string) =>
      expected.find(({ isUp, port }) => isUp && port !== ownPort && seen?.get(port) !== flags)
    const others = this.#servers.filter((server) => server !== master)
    const unseen =
      missing(masters, [master], 'master') ??
      missing(replicas, others, 'slave') ??
      missing(sentinels, this.#sentinels, 'sentinel')
    return unseen ? `does not see ${unseen.port} as it is` : ''
  }
}

async function startInto(
  servers: RedisServer[],
  count: number,
  optionsOf: (at: number) => Parameters<typeof startRedis>[0],
): Promise<void> {
  const started = await Promise.allSettled(Array.from({ length: count }, (_, at) => startRedis(optionsOf(at))))
  for (const outcome of started) if (outcome.status === 'fulfilled') servers.push(outcome.value)
  for (const outcome of started) if (outcome.status === 'rejected') throw outcome.reason
}

/** Sentinels forget this with a restart. Before Redis 7 there is no hurrying them. */
async function hurry({ admin }: RedisServer): Promise<void> {
  if (!IS_BEFORE_7) await admin.call('SENTINEL', 'DEBUG', ...HASTE)
}

async function roleOf({ admin }: RedisServer): Promise<string | undefined> {
  return /^role:(\w+)/m.exec(await admin.info('replication'))?.[1]
}

/**
 * The flags of each instance in a reply of SENTINEL: `master`, `slave,s_down`, … Without `master_down`: what a sentinel
 * reported about the master stays there for 5 s, and about the one before too.
 */
function flagsByPort(reply: unknown): Map<number, string> {
  const instances = (reply as string[][]).map((fields) => {
    const field = (name: string) => fields[fields.indexOf(name) + 1] ?? ''
    return [Number(field('port')), field('flags').replace(',master_down', '')] as const
  })
  return new Map(instances)
}

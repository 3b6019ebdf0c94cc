import { type RedisServer, startRedis } from '../../support/servers/redis-server.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import { Endpoint } from './endpoint.js'
import { addUsers, cutOff, KEEP_DATA, logInAnew, reconnect, takesWrites } from './peers.js'
import { monotonicMs } from './record.js'
import { CUT_MS, type Fault, FROZEN_MS, SOON_MS, type Topology } from './topology.js'
import { type Addresses, WAYS } from './ways.js'

/** Only clients know this name. It resolves to one of two addresses; Linux has those without any set-up. */
const NAME = 'managed.test'
const IPS = ['127.0.0.1', '127.0.0.2'] as const
const USERS = Object.keys(WAYS.managed)
const ARGS = [...KEEP_DATA, '--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
/** After this the service takes a silent master for dead, ms. */
const DOWN_AFTER_MS = 1_000
/** How long a new password is valid before the old one no longer is, ms. */
const BOTH_VALID_MS = 500
const SETTLE_MS = 20_000

/** A master with two replicas, as a service manages them: clients know one address, by name, which leads to the master. */
export class ManagedTopology implements Topology {
  readonly name = 'managed'
  readonly faults: readonly Fault[] = faultsOf(this)
  readonly servers: readonly RedisServer[]
  readonly #endpoints: readonly [Endpoint, Endpoint]
  #master: RedisServer
  #passwords = 0
  #addresses = 0

  static async start(): Promise<ManagedTopology> {
    const master = await startRedis({ args: ARGS })
    const replica = () => startRedis({ args: [...ARGS, ...replicaOf(master)] })
    const servers = [master, await replica(), await replica()]
    for (const server of servers) await addUsers(server, USERS)
    for (const server of servers) await logInAnew(server)
    for (const server of servers) await forEachUser(server, 'resetpass', `>${passwordOf(0)}`)
    const first = await Endpoint.start(master.port, IPS[0])
    const second = await Endpoint.start(master.port, IPS[1], first.port)
    const topology = new ManagedTopology(master, servers, [first, second])
    await topology.settled()
    return topology
  }

  private constructor(master: RedisServer, servers: readonly RedisServer[], endpoints: readonly [Endpoint, Endpoint]) {
    this.#master = master
    this.servers = servers
    this.#endpoints = endpoints
  }

  get addresses(): Addresses {
    const { port, host: ip } = this.#endpoint
    return {
      sentinels: [],
      masterName: '',
      nodes: [],
      endpoint: { host: NAME, port, ip },
      password: passwordOf(this.#passwords),
    }
  }

  get master(): RedisServer {
    return this.#master
  }

  get replicas(): RedisServer[] {
    return this.servers.filter((server) => server !== this.#master)
  }

  /** A planned failover: the master gives its place to a replica that has all its data, and becomes a replica. */
  async handOver(): Promise<void> {
    const [to] = this.replicas as [RedisServer]
    const from = this.#master
    await from.admin.call('FAILOVER', 'TO', to.host, to.port)
    const isDone = async () => (await isMaster(to)) && !(await isMaster(from))
    await waitUntil(isDone, { timeoutMs: SETTLE_MS, message: `FAILOVER from ${from.port} to ${to.port} is done` })
    await this.#lead(to)
  }

  /** The master is dead: the replica with the most data takes its place. */
  async replaceMaster(): Promise<void> {
    const offsets = await Promise.all(this.replicas.map(offsetOf))
    const to = this.replicas[offsets.indexOf(Math.max(...offsets))] as RedisServer
    await to.admin.call('REPLICAOF', 'NO', 'ONE')
    await this.#lead(to)
  }

  /** New connections reach the new master. @returns when it accepts writes */
  async moveAddress(options: { keepsOld: boolean }): Promise<number> {
    this.#endpoint.moveTo(this.#master.port, options)
    return await this.#writable()
  }

  /** The name resolves to another address, which leads to the new master; the one before leads to the old one. */
  async moveName(tell: (ip: string) => void): Promise<number> {
    this.#addresses++
    this.#endpoint.moveTo(this.#master.port)
    tell(this.#endpoint.host)
    return await this.#writable()
  }

  /** A while both passwords are valid. Then the old one is not, and connections that used it are closed. */
  async changePassword(tell: (password: string) => void): Promise<void> {
    const old = passwordOf(this.#passwords++)
    const password = passwordOf(this.#passwords)
    for (const server of this.servers) await forEachUser(server, `>${password}`)
    tell(password)
    await sleep(BOTH_VALID_MS)
    for (const server of this.servers) {
      await forEachUser(server, `<${old}`)
      // A client whose login fails would continue as the default user.
      await server.admin.call('ACL', 'SETUSER', 'default', 'off')
      for (const user of USERS) await server.admin.call('CLIENT', 'KILL', 'USER', user)
    }
  }

  async restart(server: RedisServer): Promise<void> {
    await server.restart([...ARGS, ...replicaOf(this.#master)])
    await this.settled()
  }

  async settled(): Promise<void> {
    const isSettled = async () => {
      const inStep = await Promise.all(this.replicas.map((server) => server.follows(this.#master)))
      return inStep.every(Boolean)
    }
    await waitUntil(isSettled, { timeoutMs: SETTLE_MS, message: `replicas follow ${this.#master.port}` })
  }

  async heal(): Promise<void> {
    for (const server of this.servers) {
      // A service replaces a machine that hangs.
      if (!server.isUp) await server.restart([...ARGS, ...replicaOf(this.#master)])
      await reconnect(server)
    }
    await this.settled()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#endpoints, ...this.servers].map((one) => one[Symbol.asyncDispose]()))
  }

  get #endpoint(): Endpoint {
    return this.#endpoints[this.#addresses % 2] as Endpoint
  }

  /** All others that run follow it. */
  async #lead(master: RedisServer): Promise<void> {
    this.#master = master
    for (const { isUp, admin } of this.replicas) if (isUp) await admin.call('REPLICAOF', master.host, master.port)
  }

  async #writable(): Promise<number> {
    return await waitUntil(() => takesWrites(this.#master), {
      timeoutMs: SETTLE_MS,
      message: 'the new master takes writes',
    })
  }
}

function faultsOf(managed: ManagedTopology): Fault[] {
  return [
    {
      id: 'move',
      title: 'planned: the address moves, connections to the old master are closed',
      limitMs: SOON_MS,
      async inject({ restored }) {
        await managed.handOver()
        await restored(await managed.moveAddress({ keepsOld: false }))
      },
    },
    {
      id: 'keep',
      title: 'planned: the address moves, the old master lives on as a replica and keeps its connections',
      limitMs: SOON_MS,
      async inject({ restored }) {
        await managed.handOver()
        await restored(await managed.moveAddress({ keepsOld: true }))
      },
    },
    {
      id: 'dns',
      title: 'planned: the name resolves to another address, the old master keeps its connections as a replica',
      limitMs: SOON_MS,
      without: ['valkey-glide'],
      note: 'valkey-glide resolves names outside Node, where the suite cannot change them',
      async inject({ restored, change }) {
        await managed.handOver()
        await restored(await managed.moveName((ip) => change({ ip })))
      },
    },
    {
      id: 'kill',
      title: 'the master is killed, the address moves',
      limitMs: SOON_MS,
      async inject({ holdLong, restored }) {
        const { master } = managed
        holdLong()
        // No replica has its last grants.
        await cutOff(master)
        await sleep(CUT_MS)
        await master.kill()
        await sleep(DOWN_AFTER_MS)
        await managed.replaceMaster()
        await restored(await managed.moveAddress({ keepsOld: false }))
      },
    },
    {
      id: 'freeze',
      title: 'the master freezes, the address moves, nobody closes old connections',
      limitMs: FROZEN_MS,
      async inject({ restored }) {
        managed.master.freeze()
        await sleep(DOWN_AFTER_MS)
        await managed.replaceMaster()
        await restored(await managed.moveAddress({ keepsOld: true }))
      },
    },
    {
      id: 'rolling-restart',
      title: 'all servers restart, one after the other',
      limitMs: SOON_MS,
      async inject({ restored }) {
        const { master, replicas } = managed
        for (const replica of replicas) await managed.restart(replica)
        await managed.handOver()
        await managed.moveAddress({ keepsOld: true })
        await managed.restart(master)
        await restored(monotonicMs())
      },
    },
    {
      id: 'password',
      title: 'the password changes, and connections that used the old one are closed',
      limitMs: SOON_MS,
      without: ['url'],
      note:
        'a configuration needs `credentialsResolver`, node-redis 5 and 6 `credentialsProvider`; for ioredis and node-redis 4 ' +
        'set `client.options.password`; the function that opens valkey-glide takes the new one; a URL cannot change it',
      async inject({ restored, change }) {
        await managed.changePassword((password) => change({ password }))
        await restored(monotonicMs())
      },
    },
  ]
}

function passwordOf(change: number): string {
  return `password-${change}`
}

function replicaOf({ host, port }: RedisServer): string[] {
  return ['--replicaof', `${host} ${port}`]
}

async function isMaster({ admin }: RedisServer): Promise<boolean> {
  return (await admin.info('replication')).includes('role:master')
}

async function offsetOf({ admin }: RedisServer): Promise<number> {
  return Number(/^slave_repl_offset:(\d+)/m.exec(await admin.info('replication'))?.[1])
}

async function forEachUser({ admin }: RedisServer, ...rules: string[]): Promise<void> {
  for (const user of USERS) await admin.call('ACL', 'SETUSER', user, ...rules)
  await admin.config('REWRITE')
}

import { type Client, connect } from '../../src/index.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { sleep, waitUntil } from '../support/wait-until.js'
import type { Backend } from './backend.js'
import { CaseContext } from './case-context.js'
import { Doomed } from './doomed.js'
import { type Each, javaLock, type Kind, kindOf } from './kinds.js'
import { NodeLock } from './node-lock.js'
import { type JavaOwner, Jvm, type Redisson } from './redisson.js'
import { SingleRedis } from './single-redis.js'
import type { Setting, Topology } from './topologies.js'

/** What may die, and how many cases wait for it to die. */
export interface Mortals {
  readonly jvm: number
  readonly node: number
  /** Every master, if a replica is to take over. */
  readonly master: number
}

/** Some Redis with a JVM and a Node client on all: what all cases of one run share. */
export class Site implements AsyncDisposable {
  readonly topology: Topology
  readonly backends: Each<Backend>
  readonly clients: Each<Client>
  readonly jvm: Jvm
  readonly redissons: Each<Redisson>
  /** Another JVM with clients of the same servers, to be killed. */
  readonly doomedJvm: Doomed<{ jvm: Jvm; redissons: Each<Redisson> }>
  /** Another Node process, `peer.ts`. */
  readonly doomedNode: Doomed<Child>
  readonly doomedMaster: Doomed<Backend>

  /** @param built where scripts/verify/interop.mjs put the versions */
  static async open(built: string, { version, topology }: Setting, mortals: Mortals): Promise<Site> {
    const [jvm, ...backends] = await Promise.all([
      Jvm.start(built, version),
      ...Array.from({ length: topology.backends }, () => topology.start()),
    ])
    const [clients, redissons] = await Promise.all([
      Promise.all(backends.map(({ target }) => connect(target))),
      redissonsOf(jvm, backends),
    ])
    return new Site(built, topology, each(backends), each(clients), jvm, redissons, mortals)
  }

  private constructor(
    built: string,
    topology: Topology,
    backends: Each<Backend>,
    clients: Each<Client>,
    jvm: Jvm,
    redissons: Each<Redisson>,
    mortals: Mortals,
  ) {
    this.topology = topology
    this.backends = backends
    this.clients = clients
    this.jvm = jvm
    this.redissons = redissons
    this.doomedJvm = new Doomed(
      mortals.jvm,
      async () => {
        const another = await Jvm.start(built, jvm.version)
        return { jvm: another, redissons: await redissonsOf(another, backends) }
      },
      (another) => another.jvm.kill(),
    )
    const targets = backends.map(({ target }) => JSON.stringify(target))
    this.doomedNode = new Doomed(
      mortals.node,
      async () => {
        const child = spawnChild(new URL('./peer.js', import.meta.url), targets)
        await child.nextMessage<{ at?: string }>(({ at }) => at === 'ready')
        return child
      },
      (child) => void child.stop(),
    )
    this.doomedMaster = new Doomed(
      mortals.master,
      async () => backends[0],
      (backend) => backend.failover(),
    )
  }

  /** Fresh clients in the same JVM, of as many Redis as this kind needs. */
  async openRedissons({ made }: Kind): Promise<Each<Redisson>> {
    return await redissonsOf(this.jvm, this.backends.slice(0, made?.servers ?? 1))
  }

  /** What a case does with an additional server, and a client of each side. */
  async onAnotherServer<T>(act: (server: SingleRedis, client: Client, redisson: Redisson) => Promise<T>): Promise<T> {
    await using server = await SingleRedis.start()
    await using client = await connect(server.target)
    const redisson = await server.open(this.jvm)
    const value = await act(server, client, redisson)
    await redisson.shutdown()
    return value
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.doomedJvm.end(), this.doomedNode.end(), ...this.clients.map((client) => client.close())])
    await this.jvm.stop()
    await Promise.all(this.backends.map((backend) => backend.stop()))
  }
}

async function redissonsOf(jvm: Jvm, backends: readonly Backend[]): Promise<Each<Redisson>> {
  return each(await Promise.all(backends.map((backend) => backend.open(jvm))))
}

function each<T>([first, ...more]: readonly T[]): Each<T> {
  if (first === undefined) throw new Error('there is none')
  return [first, ...more]
}

/** What one case has: locks of a kind under unique names, on both sides. */
export class LockFixture extends CaseContext<Kind> {
  /** What the names of its threads begin with. */
  readonly #threads: string

  constructor(site: Site, kind: Kind, name: string, threads = name) {
    super(site, kind, name)
    this.#threads = threads
  }

  /** The same lock for the callers that it excludes: other owners. */
  get rivals(): readonly LockFixture[] {
    return (this.kind.rivals ?? [this.kind.name]).map((name) => this.#of(name, `${this.#threads}:rival`))
  }

  /** The first of them. */
  get rival(): LockFixture {
    return this.rivals[0] as LockFixture
  }

  /** Another kind of lock of the same name, by the same owners in Java. */
  as(kindName: string): LockFixture {
    return this.#of(kindName, this.#threads)
  }

  override get backends(): readonly Backend[] {
    return this.site.backends.slice(0, this.kind.made?.servers ?? 1)
  }

  /** The lock in Node. Each call of `lock` outside a hold is a new owner. */
  node(name = this.name, clients = this.site.clients): NodeLock {
    return new NodeLock(this.kind, clients, name)
  }

  /** The lock in Java, for one owner on each of several threads. They share one RLock object. */
  async java(threads: number, name = this.name, redissons = this.site.redissons): Promise<JavaOwner[]> {
    const lock = await javaLock(this.kind, redissons, name)
    return Array.from({ length: threads }, (_, index) => lock.by(`${this.#threads}-${index}`))
  }

  async oneJava(name = this.name, redissons = this.site.redissons): Promise<JavaOwner> {
    const [owner] = await this.java(1, name, redissons)
    if (!owner) throw new Error('unreachable')
    return owner
  }

  /** Resolves when that side pauses until this lock is free: only then an unlock has a waiter to wake. */
  async hasWaiter(side: 'node' | 'java', name = this.name): Promise<void> {
    if (this.kind.polls?.[side] === undefined) {
      const isThere = async () => (await this.listeners(name)) > 0
      await waitUntil(isThere, { message: `a waiter for ${name}` })
    }
    await sleep(50) // it subscribes, makes one more attempt, and then pauses
  }

  #of(kindName: string, threads: string): LockFixture {
    return new LockFixture(this.site, kindOf(kindName), this.name, threads)
  }
}

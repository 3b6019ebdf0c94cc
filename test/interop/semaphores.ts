import type { Client } from '../../src/index.js'
import { CaseContext, type Thing } from './case-context.js'
import type { Site } from './fixture.js'
import {
  int,
  type JavaObject,
  JavaThreads,
  type JavaValue,
  long,
  MILLISECONDS,
  type Redisson,
  refusedUnsubscribed,
  text,
  texts,
} from './redisson.js'
import { LONG_LEASE_MS } from './steps.js'

/** Permits that one call took. */
export interface Taken {
  /** Of each permit with a lease. */
  readonly ids: readonly string[]
  release(): Promise<void>
}

/** A semaphore of either kind, as one side sees it. */
export interface Side {
  trySetPermits(permits: number): Promise<boolean>
  /** @param permits  below 0: reduces the number */
  addPermits(permits: number): Promise<void>
  availablePermits(): Promise<number>
  /** Leases of permits do not end during the case unless one is given. */
  acquire(permits?: number, leaseMs?: number): Promise<Taken>
  /** Without a wait time it tries once. */
  tryAcquire(permits?: number, waitMs?: number): Promise<Taken | null>
  delete(): Promise<boolean>
}

/** In Java also: one thread takes one from the number at `key` with each permit, until it is 0. */
export interface JavaSide extends Side {
  sell(key: string, pauseMs: number, restMs: number): Promise<{ sold: number; most: number }>
}

/** A semaphore that both sides have. */
export interface SemaphoreKind extends Thing {
  readonly node: (client: Client, name: string) => Side
  readonly java: (redisson: Redisson, name: string, threads: JavaThreads) => Promise<JavaSide>
}

/** Permits with ids and leases. */
export const PERMITS = 'permitExpirable'

export const SEMAPHORES: readonly SemaphoreKind[] = [
  { name: 'semaphore', node: nodeSemaphore, java: javaSemaphore },
  {
    name: PERMITS,
    since: '3.23.4',
    whyNotBefore: 'before 3.17 a permit has another id in Redis, and before 3.23.4 one call takes only one',
    node: nodePermits,
    java: javaPermits,
  },
]

/** What one case has: semaphores of a kind under unique names, on both sides. */
export class SemaphoreFixture extends CaseContext<SemaphoreKind> {
  /** Its threads in Java. */
  readonly threads: JavaThreads

  constructor(site: Site, kind: SemaphoreKind, name: string) {
    super(site, kind, name)
    this.threads = new JavaThreads(name)
  }

  node(name = this.name, [client] = this.site.clients): Side {
    return this.kind.node(client, name)
  }

  async java(name = this.name, [redisson] = this.site.redissons): Promise<JavaSide> {
    return await this.kind.java(redisson, name, this.threads)
  }
}

function nodeSemaphore(client: Client, name: string): Side {
  const semaphore = client.getSemaphore(name)
  const taken = (permits: number): Taken => ({ ids: [], release: () => semaphore.release(permits) })
  return {
    trySetPermits: (permits) => semaphore.trySetPermits(permits),
    addPermits: (permits) => (permits < 0 ? semaphore.reducePermits(-permits) : semaphore.addPermits(permits)),
    availablePermits: () => semaphore.availablePermits(),
    async acquire(permits = 1) {
      await semaphore.acquire({ permits })
      return taken(permits)
    },
    async tryAcquire(permits = 1, waitTimeMs = 0) {
      return (await semaphore.tryAcquire({ permits, waitTimeMs })) ? taken(permits) : null
    },
    delete: () => semaphore.delete(),
  }
}

function nodePermits(client: Client, name: string): Side {
  const semaphore = client.getPermitExpirableSemaphore(name)
  return {
    trySetPermits: (permits) => semaphore.trySetPermits(permits),
    addPermits: (permits) => (permits < 0 ? semaphore.reducePermits(-permits) : semaphore.addPermits(permits)),
    availablePermits: () => semaphore.availablePermits(),
    async acquire(permits = 1, leaseTimeMs = LONG_LEASE_MS) {
      const permit = await semaphore.acquire({ permits, leaseTimeMs })
      return { ids: permit.permitIds, release: () => permit.unlock() }
    },
    async tryAcquire(permits = 1, waitTimeMs = 0) {
      const permit = await semaphore.tryAcquire({ permits, waitTimeMs, leaseTimeMs: LONG_LEASE_MS })
      return permit && { ids: permit.permitIds, release: () => permit.unlock() }
    },
    delete: () => semaphore.delete(),
  }
}

async function javaSemaphore(redisson: Redisson, name: string, threads: JavaThreads): Promise<JavaSide> {
  const semaphore = await redisson.get('getSemaphore', text(name))
  const release = async (permits: number) => void (await threads.call(semaphore, 'release', int(permits)))
  const taken = (permits: number): Taken => ({ ids: [], release: () => release(permits) })
  return {
    ...alike(redisson, semaphore, threads),
    async acquire(permits = 1) {
      await threads.call(semaphore, 'acquire', int(permits))
      return taken(permits)
    },
    async tryAcquire(permits = 1, waitMs = 0) {
      const wait = waitMs === 0 ? [] : [long(waitMs), MILLISECONDS]
      const taking = threads.call(semaphore, 'tryAcquire', int(permits), ...wait)
      return (await taking.catch(refusedUnsubscribed)) === true ? taken(permits) : null
    },
  }
}

async function javaPermits(redisson: Redisson, name: string, threads: JavaThreads): Promise<JavaSide> {
  const semaphore = await redisson.get('getPermitExpirableSemaphore', text(name))
  const release = async (id: string) => void (await threads.call(semaphore, 'release', text(id)))
  const releaseAll = async (ids: string[]) => void (await threads.call(semaphore, 'release', texts(ids)))
  const taken = (reply: JavaValue): Taken => {
    const ids = (reply as JavaValue[]).map(String)
    return { ids, release: () => (ids.length === 1 ? release(ids[0] ?? '') : releaseAll(ids)) }
  }
  return {
    ...alike(redisson, semaphore, threads),
    async acquire(permits = 1, leaseMs = LONG_LEASE_MS) {
      return taken(await threads.call(semaphore, 'acquire', int(permits), long(leaseMs), MILLISECONDS))
    },
    async tryAcquire(permits = 1, waitMs = 0) {
      const args = [int(permits), long(waitMs), long(LONG_LEASE_MS), MILLISECONDS]
      const reply = await threads.call(semaphore, 'tryAcquire', ...args).catch(refusedUnsubscribed)
      return reply && (reply as JavaValue[]).length > 0 ? taken(reply) : null
    },
  }
}

/** What both kinds have under the same names in Java. */
function alike(
  redisson: Redisson,
  semaphore: JavaObject,
  threads: JavaThreads,
): Omit<JavaSide, 'acquire' | 'tryAcquire'> {
  return {
    trySetPermits: async (permits) => (await threads.call(semaphore, 'trySetPermits', int(permits))) === true,
    addPermits: async (permits) => void (await threads.call(semaphore, 'addPermits', int(permits))),
    availablePermits: async () => Number(await threads.call(semaphore, 'availablePermits')),
    delete: async () => (await threads.call(semaphore, 'delete')) === true,
    async sell(key, pauseMs, restMs) {
      const words = [semaphore.kept, redisson.kept, key, ...[pauseMs, restMs, LONG_LEASE_MS].map(String)]
      const reply = await threads.use((thread) => redisson.jvm.send(thread, 'sellInside', words))
      const [sold = 0, most = 0] = (reply as JavaValue[]).map(Number)
      return { sold, most }
    },
  }
}

import type { TcpProxy } from '../../support/servers/tcp-proxy.js'
import { sleep } from '../../support/wait-until.js'
import type { Random } from '../random.js'
import type { Fault, Fixture } from './topology.js'

/** Faults of connections and workers, for every topology. */
export const FAULTS: readonly Fault[] = [
  {
    name: 'cut',
    title: 'connections of a worker are reset',
    weight: 4,
    inject({ workers, random }) {
      workers.network(random).one(random).cutAll()
    },
  },
  {
    name: 'lost-reply',
    title: 'a script runs, its reply is lost with the connection',
    weight: 6,
    inject({ workers, random }) {
      workers.network(random).one(random).dropNextReply(isScript)
    },
  },
  {
    name: 'lost-request',
    title: 'a script is lost with the connection',
    weight: 3,
    inject({ workers, random }) {
      workers.network(random).one(random).dropNextRequest(isScript)
    },
  },
  {
    name: 'late-replies',
    title: 'replies and messages arrive up to 750 ms late',
    weight: 3,
    inject: async ({ workers, random }) =>
      await during(workers.network(random).all, random, (one) => one.holdReplies()),
  },
  {
    name: 'silence',
    title: 'nothing passes for up to 750 ms',
    weight: 3,
    inject: async ({ workers, random }) => await during(workers.network(random).all, random, (one) => one.freeze()),
  },
  {
    name: 'late-copies',
    title: 'requests arrive up to 8 s after the client repeated them elsewhere',
    weight: 6,
    inject: lateCopies,
  },
  {
    name: 'subscribers',
    title: 'a server closes the connections of all subscribers',
    weight: 2,
    inject: cutSubscribers,
  },
  { name: 'scripts', title: 'a server forgets its scripts (SCRIPT FLUSH)', weight: 1, inject: flushScripts },
  {
    name: 'worker-stopped',
    title: 'a process stands still (SIGSTOP), some until its leases have ended',
    weight: 2,
    inject: stopWorker,
  },
  {
    name: 'worker-killed',
    title: 'a process is killed and replaced (SIGKILL)',
    weight: 2,
    isOfNewcomers: true,
    inject: async ({ workers, random }) => await workers.killOne(random),
  },
]

const isScript = (request: string): boolean => request.startsWith('EVALSHA')

async function during(proxies: readonly TcpProxy[], random: Random, begin: (proxy: TcpProxy) => void): Promise<void> {
  for (const proxy of proxies) begin(proxy)
  await sleep(50 + random(700))
  for (const proxy of proxies) proxy.pass()
}

/** Commands in flight when the connection breaks arrive long after the client has sent them again. */
async function lateCopies({ workers, random }: Fixture): Promise<void> {
  const proxy = workers.network(random).one(random)
  proxy.freeze()
  await sleep(20 + random(500))
  proxy.orphan(random(2) === 0 ? random(1_000) : random(8_000))
  proxy.pass()
}

async function cutSubscribers(fixture: Fixture): Promise<void> {
  const server = anyServer(fixture)
  if (server?.isUp) await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub').catch(() => {})
}

async function flushScripts(fixture: Fixture): Promise<void> {
  const server = anyServer(fixture)
  if (server?.isUp) await server.admin.call('SCRIPT', 'FLUSH', 'SYNC').catch(() => {})
}

/** Some continue only after their leases have ended. */
async function stopWorker({ workers, random }: Fixture): Promise<void> {
  await workers.freezeOne(random, random(3) === 0 ? workers.leaseMs + 1_000 : 100 + random(1_500))
}

function anyServer({ topology: { servers }, random }: Fixture): (typeof servers)[number] | undefined {
  return servers[random(servers.length)]
}

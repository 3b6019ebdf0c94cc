import type { RedisServer } from '../support/redis-server.js'
import type { TcpProxy } from '../support/tcp-proxy.js'
import { sleep } from '../support/wait-until.js'
import type { Workers } from './workers.js'

/** What faults act on. */
export interface Targets {
  readonly workers: Workers
  readonly server: RedisServer
  /** From 0 to below `n`. */
  random(n: number): number
}

type Fault = (targets: Targets) => Promise<void> | void

/** Longer than a worker's lease. */
const LONG_FREEZE_MS = 4_000

/** By name, with its relative frequency. */
export const FAULTS: readonly (readonly [name: string, weight: number, fault: Fault])[] = [
  ['connections cut', 4, ({ workers, random }) => workers.proxy(random).cutAll()],
  ['a reply lost', 6, ({ workers, random }) => lose(workers.proxy(random), 'reply')],
  ['a request lost', 3, ({ workers, random }) => lose(workers.proxy(random), 'request')],
  ['subscriber cut', 2, cutSubscriber],
  [
    'replies late',
    3,
    async ({ workers, random }) => await pass(workers.proxy(random), random, (proxy) => proxy.holdReplies()),
  ],
  [
    'network silent',
    3,
    async ({ workers, random }) => await pass(workers.proxy(random), random, (proxy) => proxy.freeze()),
  ],
  ['late copies', 6, lateCopies],
  ['worker stopped', 2, stopWorker],
  ['worker killed', 2, async ({ workers, random }) => await workers.killOne(random)],
  ['server stopped', 1, stopServer],
]

function lose(proxy: TcpProxy, what: 'reply' | 'request'): void {
  const isScript = (request: string): boolean => request.startsWith('EVALSHA')
  if (what === 'reply') proxy.dropNextReply(isScript)
  else proxy.dropNextRequest(isScript)
}

async function pass(proxy: TcpProxy, random: Targets['random'], begin: (proxy: TcpProxy) => void): Promise<void> {
  begin(proxy)
  await sleep(50 + random(700))
  proxy.pass()
}

/** Commands in flight when the connection breaks arrive long after the client has sent them again. */
async function lateCopies({ workers, random }: Targets): Promise<void> {
  const proxy = workers.proxy(random)
  proxy.freeze()
  await sleep(20 + random(500))
  proxy.orphan(random(2) === 0 ? random(1_000) : random(8_000))
  proxy.pass()
}

async function cutSubscriber({ server }: Targets): Promise<void> {
  if (server.isUp) await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
}

/** Some continue only after their leases have ended. */
async function stopWorker({ workers, random }: Targets): Promise<void> {
  await workers.freezeOne(random, random(3) === 0 ? LONG_FREEZE_MS : 100 + random(1_500))
}

async function stopServer({ server, random }: Targets): Promise<void> {
  if (!server.isUp) return
  server.freeze()
  await sleep(50 + random(900))
  server.thaw()
}

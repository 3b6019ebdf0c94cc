import type { Kind, Library } from '../library.js'
import { KINDS } from '../library.js'
import { missing as etcdMissing, serve as serveEtcd } from './etcd.js'
import { JAVA } from './java.js'
import { serve as serveZookeeper } from './zookeeper.js'

const LOCK: readonly Kind[] = ['lock']
/** The workloads in a cluster. */
const IN_CLUSTER = ['c1', 'c2', 'c3b', 'c4']

const polling = { waits: 'by polling', checksOwner: true, keeps: false, kinds: LOCK, tuned: false } as const

/** A polling library with its defaults, and tuned to poll often. */
function twice(library: Library): Library[] {
  return [library, { ...library, name: `${library.name}-tuned`, tuned: true }]
}

// Each is loaded only by the process that uses it.
export const LIBRARIES: readonly Library[] = [
  ...ours('holdfast', async (options) => (await import('./holdfast.js')).open(options)),
  ...ours('holdfast-with-lock', async (options) => (await import('./holdfast.js')).openWithLock(options), ['w1', 'w2']),
  ...ours('holdfast-node-redis', async (options) => (await import('./holdfast.js')).openThroughNodeRedis(options)),
  ...ours('holdfast-thread', async (options) => (await import('./holdfast.js')).openWithThread(options), ['w6', 'w7']),
  ...ours(
    'holdfast-unacknowledged',
    async (options) => (await import('./holdfast.js')).openUnacknowledged(options),
    IN_CLUSTER,
  ),
  ...ours(
    'holdfast-background',
    async (options) => (await import('./holdfast.js')).openWithBackgroundRelease(options),
    ['w9'],
  ),
  ...ours('holdfast-metrics', async (options) => (await import('./holdfast.js')).openWithMetrics(options), [
    'w1',
    'w2',
  ]),
  {
    name: 'floor',
    waits: 'not at all',
    checksOwner: true,
    keeps: false,
    kinds: LOCK,
    tuned: false,
    isReference: true,
    isForClusters: true,
    open: async (options) => (await import('./floor.js')).open(options),
  },
  {
    name: 'ping',
    waits: 'not at all',
    checksOwner: false,
    keeps: false,
    kinds: LOCK,
    tuned: false,
    isReference: true,
    only: ['w9'],
    open: async (options) => (await import('./ping.js')).open(options),
  },
  ...twice({
    ...polling,
    name: 'redlock-4',
    package: 'redlock-4',
    isForClusters: true,
    open: async (options) => (await import('./redlock-4.js')).open(options),
  }),
  ...twice({
    ...polling,
    name: 'redlock-5',
    package: 'redlock-5',
    isForClusters: true,
    keeps: true,
    open: async (options) => (await import('./redlock-5.js')).open(options),
  }),
  ...twice({
    ...polling,
    name: 'redis-semaphore',
    package: 'redis-semaphore',
    keeps: true,
    open: async (options) => (await import('./redis-semaphore.js')).open(options),
  }),
  ...twice({
    ...polling,
    name: 'sesamecare-redlock',
    package: '@sesamecare-oss/redlock',
    keeps: true,
    open: async (options) => (await import('./sesamecare-redlock.js')).open(options),
  }),
  ...twice({
    ...polling,
    name: 'redlock-universal',
    package: 'redlock-universal',
    keeps: true,
    open: async (options) => (await import('./redlock-universal.js')).open(options),
  }),
  {
    name: 'node-redisson',
    package: 'node-redisson',
    waits: 'by message',
    checksOwner: true,
    keeps: true,
    kinds: LOCK,
    tuned: false,
    open: async (options) => (await import('./node-redisson.js')).open(options),
  },
  ...twice({
    ...polling,
    name: 'verrou',
    package: '@verrou/core',
    open: async (options) => (await import('./verrou.js')).open(options),
  }),
  ...twice({
    ...polling,
    name: 'murlock',
    package: 'murlock',
    open: async (options) => (await import('./murlock.js')).open(options),
  }),
  {
    name: 'redisson-java',
    version: '4.7.0',
    waits: 'by message',
    checksOwner: true,
    keeps: true,
    kinds: KINDS,
    tuned: false,
    isReference: true,
    ...JAVA,
  },
  {
    name: 'zookeeper',
    version: '3.9.3 (Curator 5.9.0)',
    waits: 'by message',
    checksOwner: true,
    keeps: true,
    kinds: LOCK,
    tuned: false,
    isReference: true,
    only: ['w1', 'w3', 'w3b', 'w4'],
    ...JAVA,
    serve: serveZookeeper,
  },
  {
    name: 'etcd',
    waits: 'by message',
    checksOwner: true,
    keeps: false,
    kinds: LOCK,
    tuned: false,
    isReference: true,
    only: ['w1', 'w3', 'w3b', 'w4'],
    missing: etcdMissing,
    warmUpMs: 2_500,
    serve: serveEtcd,
    open: async (options) => (await import('./etcd.js')).open(options),
  },
]

function ours(name: string, open: NonNullable<Library['open']>, only?: string[]): Library[] {
  const kinds = name === 'holdfast' ? KINDS : LOCK
  const isForClusters = name === 'holdfast' || only === IN_CLUSTER
  const library = { name, waits: 'by message', checksOwner: true, keeps: true, kinds, tuned: false } as const
  return [{ ...library, isOurs: true, isForClusters, ...(only && { only }), open }]
}

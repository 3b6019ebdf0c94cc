/** What the doctor says an address is, and what a failover will look like, from names and replies. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { description, type Endpoint, endpointOf, failoverOf, type Observation } from '../../src/doctor/endpoint.js'

const SEEN: Observation = {
  mode: undefined,
  hosts: ['redis.internal'],
  info: new Map(),
  refusals: [],
  clientIds: ['7', '7'],
  connectedTo: '10.0.0.1:6379',
  arrivedAt: undefined,
  masters: 0,
  replicas: 0,
}

interface Case {
  readonly seen: Partial<Omit<Observation, 'info'>>
  readonly info?: Record<string, string>
  readonly endpoint: Partial<Endpoint>
  readonly message: RegExp
  readonly failover: RegExp
}

const MASTER = { redis_version: '8.2.1', role: 'master', connected_slaves: '0' }
const named = (host: string, service: string): Case => ({
  seen: { hosts: [host] },
  info: MASTER,
  endpoint: { service: `${service}, by its name` },
  message: new RegExp(`^a single server, Redis; ${service}, by its name; no proxy detected$`),
  failover: /^if the address moves .* READONLY .* usually within 2 s, .*; if it does not move/,
})

const CASES: Record<string, Case> = {
  'a single server': {
    seen: { arrivedAt: '10.0.0.1:6379' },
    info: MASTER,
    endpoint: { topology: 'single', engine: 'Redis', service: null, proxy: null, relay: null },
    message: /^a single server, Redis; no proxy detected$/,
    failover: /^none: if this server fails, no lock is granted until it is back, and without persistence/,
  },
  'a single server on a socket': {
    seen: { connectedTo: '/run/redis.sock' },
    info: { ...MASTER, tcp_port: '0' },
    endpoint: { topology: 'single', relay: null },
    message: /^a single server/,
    failover: /^none/,
  },
  'a master with replicas at one address': {
    seen: {},
    info: { ...MASTER, connected_slaves: '2', valkey_version: '8.1.3' },
    endpoint: { topology: 'replicated', engine: 'Valkey' },
    message: /^a master, Valkey, replicas: 2;/,
    failover: /^if the address moves/,
  },
  'a list of servers': {
    seen: { mode: 'replicated' },
    info: MASTER,
    endpoint: { topology: 'replicated' },
    message: /^a master, Redis, replicas: 0;/,
    failover: /^clients look for the promoted server among the addresses/,
  },
  'a replica': {
    seen: {},
    info: { ...MASTER, role: 'slave', master_host: '10.0.0.2', master_port: '6380' },
    endpoint: { topology: 'replica' },
    message: /^a replica of 10\.0\.0\.2:6380, Redis/,
    failover: /^a replica refuses writes/,
  },
  'a master that Sentinel names': {
    seen: { mode: 'sentinel' },
    info: { ...MASTER, connected_slaves: '1' },
    endpoint: { topology: 'sentinel' },
    message: /^a master named by Sentinel, Redis, replicas: 1;/,
    failover: /^clients follow the master that Sentinel promotes/,
  },
  'a Sentinel itself': {
    seen: { refusals: ["ERR unknown command 'TIME'"] },
    info: { redis_version: '8.2.1', redis_mode: 'sentinel' },
    endpoint: { topology: 'sentinel-itself' },
    message: /^a Sentinel, which has no locks/,
    failover: /^not known/,
  },
  'a Sentinel of Valkey': {
    seen: {},
    info: { redis_version: '7.2.4', valkey_version: '8.1.3', server_mode: 'sentinel' },
    endpoint: { topology: 'sentinel-itself' },
    message: /^a Sentinel, which has no locks/,
    failover: /^not known/,
  },
  'a cluster': {
    seen: { mode: 'cluster', masters: 3, replicas: 3 },
    info: { ...MASTER, cluster_enabled: '1' },
    endpoint: { topology: 'cluster' },
    message: /^a cluster, Redis, masters: 3, replicas: 3;/,
    failover: /^clients follow the promoted replica/,
  },
  'a cluster without replicas': {
    seen: { mode: 'cluster', masters: 3 },
    info: { ...MASTER, cluster_enabled: '1' },
    endpoint: { topology: 'cluster' },
    message: /^a cluster, Redis, masters: 3, replicas: 0;/,
    failover: /^none: if a master fails/,
  },
  'a node of a cluster': {
    seen: {},
    info: { ...MASTER, cluster_enabled: '1' },
    endpoint: { topology: 'cluster-node' },
    message: /^a node of a cluster, Redis/,
    failover: /^not followed/,
  },
  Dragonfly: {
    seen: {},
    info: { ...MASTER, dragonfly_version: 'df-v1.30.0' },
    endpoint: { engine: 'Dragonfly' },
    message: /^a single server, Dragonfly/,
    failover: /^none/,
  },
  KeyDB: {
    seen: {},
    info: { ...MASTER, executable: '/usr/bin/keydb-server' },
    endpoint: { engine: 'KeyDB' },
    message: /^a single server, KeyDB/,
    failover: /^none/,
  },
  'ElastiCache by an address of its own': {
    seen: {},
    info: { ...MASTER, os: 'Amazon ElastiCache' },
    endpoint: { service: 'Amazon ElastiCache, by INFO' },
    message: /^a single server, Redis; Amazon ElastiCache, by INFO/,
    failover: /^if the address moves/,
  },
  'ElastiCache by name': named('orders.abc123.ng.0001.euw1.cache.amazonaws.com', 'Amazon ElastiCache'),
  'MemoryDB by name': named('clustercfg.orders.abc123.memorydb.eu-west-1.amazonaws.com', 'Amazon MemoryDB'),
  'Azure by name': named('orders.redis.cache.windows.net', 'Azure Cache'),
  'Azure Managed Redis by name': named('orders.westeurope.redis.azure.net', 'Azure Managed Redis'),
  'Upstash by name': named('fit-cat-123.upstash.io', 'Upstash'),
  'Redis Cloud by name': named('redis-123.c1.eu-west-1-3.ec2.redns.redis-cloud.com', 'Redis Cloud'),
  'Redis Labs by name': named('redis-123.c1.eu-west-1-3.ec2.cloud.redislabs.com', 'Redis Cloud'),
  'Alibaba by name': named('r-bp1abc.redis.rds.aliyuncs.com', 'Alibaba Cloud'),
  'Tencent by name': named('gz-crs-abc.sql.tencentcdb.com', 'Tencent Cloud'),
  'a name that only contains one of a service': {
    seen: { hosts: ['cache.amazonaws.com.example.org', 'upstash.io.internal'] },
    info: MASTER,
    endpoint: { service: null },
    message: /^a single server, Redis; no proxy detected$/,
    failover: /^none/,
  },
  'a proxy with several connections': {
    seen: { clientIds: ['7', '9'] },
    info: MASTER,
    endpoint: {
      topology: 'single',
      proxy: 'a proxy that sends the commands of one connection over several, by CLIENT ID',
    },
    message: /^a single server, Redis; a proxy that sends/,
    failover: /^the proxy decides/,
  },
  Envoy: {
    seen: { refusals: ["unsupported command 'CLIENT'", 'invalid request'], clientIds: ['', ''] },
    endpoint: { topology: 'unknown', engine: null, proxy: 'looks like Envoy, by its replies' },
    message: /^not known; looks like Envoy/,
    failover: /^the proxy decides/,
  },
  Codis: {
    seen: { refusals: ["ERR handle request, command 'CLIENT' is not allowed"], clientIds: ['', ''] },
    info: MASTER,
    endpoint: { proxy: 'looks like Codis, by its replies' },
    message: /looks like Codis/,
    failover: /^the proxy decides/,
  },
  predixy: {
    seen: { clientIds: ['', ''] },
    info: { Version: '1.0.5', RedisMode: 'proxy' },
    endpoint: { topology: 'unknown', engine: null, proxy: 'predixy, by INFO' },
    message: /^not known; predixy, by INFO$/,
    failover: /^the proxy decides/,
  },
  'one that hides INFO': {
    seen: { refusals: ["ERR unknown command 'INFO'"] },
    endpoint: { topology: 'unknown', engine: null, proxy: 'looks like a proxy, or a service that hides INFO' },
    message: /^not known; looks like a proxy, or a service/,
    failover: /^the proxy decides/,
  },
  'a TCP proxy': {
    seen: { arrivedAt: '10.0.0.9:6379' },
    info: MASTER,
    endpoint: { topology: 'single', proxy: null },
    message: /looks like a TCP proxy such as HAProxy, .*: 10\.0\.0\.1:6379 leads to 10\.0\.0\.9:6379$/,
    failover: /^none/,
  },
  'a mapped port, before Redis 6.2': {
    seen: { arrivedAt: '6380' },
    info: MASTER,
    endpoint: { proxy: null },
    message: /10\.0\.0\.1:6379 leads to 6380$/,
    failover: /^none/,
  },
  'the port itself, before Redis 6.2': {
    seen: { arrivedAt: '6379' },
    info: MASTER,
    endpoint: { relay: null },
    message: /no proxy detected$/,
    failover: /^none/,
  },
}

describe('the doctor', () => {
  for (const [name, { seen, info = {}, endpoint, message, failover }] of Object.entries(CASES)) {
    it(`the doctor recognizes ${name}`, () => {
      const observation = { ...SEEN, ...seen, info: new Map(Object.entries(info)) }
      const found = endpointOf(observation)
      assert.deepEqual({ ...found, ...endpoint }, found)
      const said = description(found, observation)
      assert.match(said.message, message)
      const status = found.topology === 'sentinel-itself' ? 'problem' : found.proxy === null ? 'ok' : 'warning'
      assert.deepEqual([said.details, said.status], [found, status])
      assert.match(failoverOf(found, observation, true).message, failover)
    })
  }

  it('the doctor notes a lock that may be granted twice at a moving address, unless acknowledged', () => {
    const observation = { ...SEEN, info: new Map(Object.entries({ ...MASTER, connected_slaves: '1' })) }
    const found = endpointOf(observation)
    const loose = failoverOf(found, observation, false)
    assert.equal(loose.status, 'note')
    assert.match(loose.fix ?? '', /checkLockSyncedSlaves: true/)
    assert.equal(failoverOf(found, observation, true).status, 'ok')
  })
})

/** The TLS server name (SNI) is the name of each server, so that a proxy in front of several can route by it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect as connectTcp } from 'node:net'
import { after, before, beforeEach, describe, it } from 'node:test'
import { createServer, type TLSSocket } from 'node:tls'
import { type ConnectOptions, connect, type RedissonConfig } from '../../src/index.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { MASTER_NAME, startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { type Certificates, makeCertificates } from '../support/servers/tls.js'

interface Front extends AsyncDisposable {
  readonly port: number
  /** The server names of established connections; false: a connection without one. */
  readonly names: (string | false)[]
  /** The server names of all attempts, including failed ones. */
  readonly queried: string[]
}

describe('the TLS server name (SNI)', () => {
  let certificates: Certificates
  let server: RedisServer
  let front: Front
  before(async () => {
    certificates = await makeCertificates()
    server = await startRedis()
    front = await startFront(server.port)
  })
  beforeEach(() => {
    front.names.length = 0
    front.queried.length = 0
  })
  after(async () => {
    await front[Symbol.asyncDispose]()
    await server.stop()
    certificates.remove()
  })

  /** A TLS proxy in front of a server that records server names. */
  async function startFront(port: number): Promise<Front> {
    const { cert, key } = certificates.server
    const names: (string | false)[] = []
    const sockets = new Set<TLSSocket>()
    const queried: string[] = []
    const onName = (name: string, callback: (error: null) => void): void => {
      queried.push(name)
      callback(null)
    }
    const listener = createServer({ cert, key, SNICallback: onName }, (socket) => {
      names.push(socket.servername ?? false)
      sockets.add(socket)
      const behind = connectTcp(port, '127.0.0.1')
      socket.on('error', () => {}).on('close', () => behind.destroy())
      behind.on('error', () => {}).on('close', () => socket.destroy())
      socket.pipe(behind).pipe(socket)
    }).listen(0, '127.0.0.1')
    listener.on('tlsClientError', () => {})
    await once(listener, 'listening')
    const close = async (): Promise<void> => {
      listener.close()
      for (const socket of sockets) socket.destroy()
    }
    return { port: (listener.address() as AddressInfo).port, names, queried, [Symbol.asyncDispose]: close }
  }

  async function works(options: ConnectOptions): Promise<void> {
    await using client = await connect({ checkLockSyncedSlaves: false, ...options })
    const hold = await client.getLock('a').lock()
    // A waiter opens another connection.
    assert.equal(await client.getLock('a').tryLock({ waitTimeMs: 200 }), null)
    await hold.unlock()
  }

  function withCa(config: RedissonConfig): RedissonConfig {
    return { tls: { ca: certificates.ca }, ...config }
  }

  it('SNI is the host name: URL, one server, a resolver, a master', async () => {
    const address = `rediss://localhost:${front.port}`
    // The certificate is untrusted, but the name is sent before that is known.
    await assert.rejects(connect(`${address}/0`), /certificate|self-signed/)
    assert.deepEqual(new Set(front.queried.splice(0)), new Set(['localhost']))
    const single = withCa({ singleServerConfig: { address } })
    for (const options of [
      { config: single },
      { config: single, credentialsResolver: () => ({}) },
      { config: withCa({ masterSlaveServersConfig: { masterAddress: address } }) },
      { config: withCa({ replicatedServersConfig: { nodeAddresses: [address] } }) },
    ]) {
      await works(options)
      assert.ok(front.names.length >= 2)
      assert.deepEqual(new Set(front.names.splice(0)), new Set(['localhost']))
    }
  })

  it('SNI is not sent for an IP address', async () => {
    const address = `rediss://127.0.0.1:${front.port}`
    await works({ config: withCa({ singleServerConfig: { address } }) })
    await works({ config: withCa({ masterSlaveServersConfig: { masterAddress: address } }) })
    await assert.rejects(connect(address), /certificate|self-signed/)
    assert.deepEqual(new Set(front.names), new Set([false]))
    assert.deepEqual(front.queried, [])
  })

  it('SNI is the servername of the configuration, if there is one', async () => {
    const tls = { ca: certificates.ca, servername: 'localhost' }
    await works({ config: { singleServerConfig: { address: `rediss://127.0.0.1:${front.port}` }, tls } })
    assert.deepEqual(new Set(front.names), new Set(['localhost']))
  })

  it('SNI is the host name in a cluster, whether the configuration or a node named it', async () => {
    await using cluster = await startCluster({ masters: 3, replicasEach: 0 })
    const masters = await cluster.masters()
    const fronts = await Promise.all(masters.map(({ port }) => startFront(port)))
    try {
      const hostsPortMap = Object.fromEntries(
        masters.map(({ port }, at) => [`127.0.0.1:${port}`, `localhost:${fronts[at]?.port}`]),
      )
      const clusterServersConfig = {
        nodeAddresses: [`rediss://localhost:${fronts[0]?.port}`],
        natMapper: { class: 'org.redisson.api.HostPortNatMapper', hostsPortMap },
      }
      for (const options of [{}, { credentialsResolver: () => ({}) }]) {
        await using client = await connect({ config: withCa({ clusterServersConfig }), ...options })
        for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) {
          const lock = client.getLock(name)
          await lock.withLock(async () => assert.equal(await lock.getHolders().then(({ length }) => length), 1))
        }
        for (const { names } of fronts) assert.deepEqual(new Set(names.splice(0)), new Set(['localhost']))
      }
    } finally {
      for (const one of fronts) await one[Symbol.asyncDispose]()
    }
  })

  it('SNI is the host name for the master that Sentinel names, and for each Sentinel', async () => {
    await using group = await startSentinels({ sentinels: 1, replicas: 0 })
    const master = await group.master()
    const [sentinel] = group.sentinels as [RedisServer]
    await using ofSentinel = await startFront(sentinel.port)
    await using ofMaster = await startFront(master.port)
    const hostsPortMap = { [`127.0.0.1:${master.port}`]: `localhost:${ofMaster.port}` }
    const sentinelServersConfig = {
      sentinelAddresses: [`rediss://localhost:${ofSentinel.port}`],
      masterName: MASTER_NAME,
      natMapper: { class: 'org.redisson.api.HostPortNatMapper', hostsPortMap },
    }
    await works({ config: withCa({ sentinelServersConfig }) })
    assert.deepEqual(new Set(ofSentinel.names), new Set(['localhost']))
    assert.deepEqual(new Set(ofMaster.names), new Set(['localhost']))
  })
})

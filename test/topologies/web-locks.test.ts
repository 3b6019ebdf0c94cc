/** `client.locks` on a cluster: locks and the list of their names are on different servers. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, connect } from '../../src/index.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'

const NAMES = ['a', 'b', 'c', '', '{', '{}', '\uD800', 'a {b} c']

describe('client.locks on a cluster', () => {
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster({ replicasEach: 0 })
  })
  after(() => cluster.stop())

  const open = (): Promise<Client> =>
    connect({ config: { clusterServersConfig: { nodeAddresses: [...cluster.urls] } } })

  it('client.locks takes any name on a cluster, lists all of them, and grants in order', async () => {
    await using client = await open()
    await using other = await open()
    const order: string[] = []
    const waiting: Promise<unknown>[] = []
    const all = NAMES.map(async (name) => {
      await client.locks.request(name, async (lock) => {
        waiting.push(other.locks.request(name, () => order.push(`${lock.name} second`)))
        const { held, pending } = await other.locks.query()
        const clientsOf = (infos: typeof held) =>
          infos.filter((one) => one.name === name).map(({ clientId }) => clientId)
        assert.deepEqual([clientsOf(held), clientsOf(pending)], [[client.id], [other.id]])
        order.push(`${lock.name} first`)
      })
    })
    await Promise.all(all)
    await Promise.all(waiting)
    for (const name of NAMES) {
      const places = ['first', 'second'].map((which) => order.indexOf(`${name} ${which}`))
      assert.ok((places[0] ?? -1) >= 0 && (places[0] ?? 0) < (places[1] ?? 0), name)
    }
  })

  it('a lock of client.locks can be stolen on a cluster', async () => {
    await using client = await open()
    await using thief = await open()
    let isHeld = (): void => {}
    const held = new Promise<void>((resolve) => {
      isHeld = resolve
    })
    const stolen = client.locks.request('s', () => {
      isHeld()
      return new Promise(() => {})
    })
    const rejected = assert.rejects(stolen, { name: 'AbortError' })
    await held
    assert.equal(await thief.locks.request('s', { steal: true }, ({ name }) => name), 's')
    await rejected
  })
})

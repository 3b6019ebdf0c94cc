/** Whom a client asks whether a master of a cluster still is one. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusterMasterStatus, type SendToServer } from '../../src/adapters/cluster-master-status.js'
import { slotOf } from '../../src/wire/slots.js'

const KEY = 'a'
const SLOT = slotOf(KEY)
const LAST = 16_383
const NAMED = { one: ['localhost', 6379, 'one'], two: ['localhost', 6379, 'two'], nameless: [null, 6379, 'three'] }
/** The slots of the first master are in two ranges, around that of the key. */
const SHARDS = [
  [0, SLOT - 2, NAMED.two],
  [SLOT - 1, SLOT - 1, NAMED.one],
  [SLOT, SLOT, NAMED.one],
  [SLOT + 1, LAST - 1, NAMED.nameless],
  [LAST, LAST, NAMED.two],
]

describe('the master of a slot', () => {
  it('the master of a slot is asked about at the others, which its ids tell, not its addresses', async () => {
    const given: number[][] = []
    const other: SendToServer = async () => SHARDS
    const status = await clusterMasterStatus(
      async () => SHARDS,
      (slots) => {
        given.push([...slots].sort((a, b) => a - b))
        return slots.map(() => other)
      },
      KEY,
    )
    assert.deepEqual(given, [[SLOT + 1, LAST]])
    assert.deepEqual(status, { refusal: undefined, replicas: 0, isConfirmed: true, isPartial: false })
  })

  it('the master of a slot is replaced if another names a server with another id at its address', async () => {
    const successor = SHARDS.map(([from, to, node]) => [
      from,
      to,
      node === NAMED.one ? ['localhost', 6379, 'new'] : node,
    ])
    const status = await clusterMasterStatus(
      async () => SHARDS,
      () => [async () => successor],
      KEY,
    )
    assert.equal(status?.refusal, 'the cluster has another master for its slots')
  })
})

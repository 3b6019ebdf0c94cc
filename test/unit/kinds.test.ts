/** Nest, the docs tests and the other tests rely on the table of kinds. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Client, lockOfKind } from '../../src/client.js'
import { KIND_IDS, KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { FakeClock } from '../support/fake-clock.js'
import { FakePort } from '../support/fake-port.js'

it('the getter in each row of the table of kinds returns a lock of that kind', async () => {
  await using client = new Client(new FakePort(new FakeClock()))
  for (const id of NAMED_KIND_IDS) assert.equal(lockOfKind(client, id, 'a').kind.id, id)
  assert.equal(client[KINDS.fasterMulti.getter]('a', ['b']).kind.id, 'fasterMulti')
  assert.equal(KIND_IDS.length, NAMED_KIND_IDS.length + 1)
})

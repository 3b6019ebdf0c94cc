/** In a cluster a client can be asked through any node: requests and replies are on sharded channels, if Redis has them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { publish } from '../../src/delivery/publish.js'
import { readStateReply, writeStateRequest } from '../../src/fleet/protocol.js'
import { readRecord } from '../../src/fleet/record.js'
import { INBOX_PREFIX } from '../../src/wire/keys.js'
import { clusterDrivers } from '../support/drivers.js'
import { setUpFixtureAt } from '../support/fixture.js'
import { setUpCluster } from '../support/places.js'
import { waitUntil } from '../support/wait-until.js'

for (const driver of clusterDrivers) {
  describe(`a client of a cluster, through ${driver.name}`, () => {
    const place = setUpCluster()
    const fixture = setUpFixtureAt(place, driver)

    it('a client of a cluster has a record and can be asked', async () => {
      const asker = await fixture.connect()
      const client = await fixture.connect({ inspection: { name: 'orders' } })
      const lock = client.getLock('wanted')
      const foreign = await asker.getLock('wanted').lock()
      const waiting = lock.lock({ label: 'waits' })
      const { inbox, scripts } = lock.context
      await waitUntil(() => inbox.isLive, { message: 'its inbox' })

      const reply = `holdfast_reply:${'0'.repeat(32)}`
      const texts: string[] = []
      const { wakeups, scripts: theirs } = asker.getLock('x').context
      const subscription = wakeups.listen(reply, (text) => void (text && texts.push(text)))
      await waitUntil(() => subscription.isLive)
      const request = writeStateRequest({ reply, limit: 10 })
      assert.equal(await publish(theirs, INBOX_PREFIX + client.id, request), 1)
      await waitUntil(() => texts.length > 0, { message: 'a reply' })
      assert.deepEqual(
        readStateReply(texts[0] ?? '')?.waits.map(({ lock, label }) => [lock, label]),
        [['wanted', 'waits']],
      )
      subscription.leave()

      const key = `holdfast_client:${client.id}`
      const record = readRecord(String(await scripts.command(['GET', key], key)), 0)
      assert.equal(record?.client.name, 'orders')
      await foreign.unlock()
      await (await waiting).unlock()
      await client.close()
      assert.equal(await theirs.command(['EXISTS', key], key), 0)
      assert.equal(texts.length, 1, 'it replied once')
    })
  })
}

/** A client on a real Redis lets others ask it: who it is, what it holds and waits for. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readStateReply, type StateReply, writeStateRequest } from '../../src/fleet/protocol.js'
import { RECORD_TTL_MS, readRecord } from '../../src/fleet/record.js'
import type { Client } from '../../src/index.js'
import { drivers, type Fixture, setUpFixture } from '../support/fixture.js'
import { uncontended } from '../support/uncontended.js'
import { waitUntil } from '../support/wait-until.js'

const INSPECTION = { inspection: { name: 'orders', host: 'host-1' } }
const REPLY = `holdfast_reply:${'0'.repeat(32)}`

for (const driver of drivers) {
  describe(`a client, through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    it('a client sends the same bytes for a lock nobody else wants, whether it can be asked or not', async () => {
      const [off, on] = [await fixture.connectThroughProxy(), await fixture.connectThroughProxy(INSPECTION)]
      const isSame = async (when: string): Promise<void> => {
        const expected = await uncontended(off.client, off.proxy)
        assert.deepEqual(await uncontended(on.client, on.proxy), expected, when)
      }
      await isSame('before its first wait')
      for (const { client } of [off, on]) {
        const { wait, end } = await waitingFor(fixture, client, client === on.client)
        await end()
        await (await wait).unlock()
      }
      await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS')).length === 1, {
        message: 'one inbox',
      })
      await isSame('with an inbox and a record')
    })

    it('a client can be asked from its first wait on, and has a record, both until it is closed', async () => {
      const client = await fixture.connect(INSPECTION)
      const { wait, end } = await waitingFor(fixture, client)
      const { client: info, ageMs } = await recordOf(fixture, client)
      assert.deepEqual([info.id, info.name, info.host, info.pid], [client.id, 'orders', 'host-1', process.pid])
      assert.ok(ageMs < RECORD_TTL_MS / 2)

      const hold = await client.getLock('held').lock({ label: 'refund' })
      const { holds, waits } = await ask(fixture, client)
      assert.deepEqual(
        holds.map(({ lock, holder, count, label }) => [lock, holder, count, label]),
        [['held', hold.holder, 1, 'refund']],
      )
      assert.deepEqual(
        waits.map(({ lock, label, endsInMs }) => [lock, label, endsInMs]),
        [['wanted', 'waits', undefined]],
      )
      await hold.unlock()
      await end()
      await (await wait).unlock()
      assert.deepEqual((await ask(fixture, client)).waits, [])
      await client.close()
      assert.equal(await fixture.server.admin.exists(`holdfast_client:${client.id}`), 0)
      await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS', 'holdfast_inbox:*')).length === 0)
    })

    it('a client can be asked again after its connections were lost, and Redis its data', async () => {
      const { admin } = fixture.server
      const client = await fixture.connect(INSPECTION)
      const { wait, end } = await waitingFor(fixture, client)
      await end()
      await (await wait).unlock()
      await admin.flushall()
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await waitUntil(async () => (await admin.exists(`holdfast_client:${client.id}`)) === 1, { message: 'a record' })
      await waitUntil(async () => await isListening(fixture, client), { message: 'its inbox' })
      assert.equal((await ask(fixture, client)).client, client.id)
    })

    it('a client keeps its command connection when sent more than Redis buffers for one subscriber', async () => {
      const { admin } = fixture.server
      const client = await fixture.connect(INSPECTION)
      const { wait, end } = await waitingFor(fixture, client)
      await end()
      const hold = await wait
      const before = await connections(fixture)
      await admin.publish(`holdfast_inbox:${client.id}`, Buffer.alloc(33 * 1024 * 1024, ' '))
      await waitUntil(async () => (await connections(fixture)).pubsub !== before.pubsub, {
        message: 'it has reconnected',
      })
      await waitUntil(async () => await isListening(fixture, client), { message: 'its inbox' })
      assert.equal((await ask(fixture, client)).holds[0]?.holder, hold.holder)
      assert.equal((await connections(fixture)).normal, before.normal)
      await hold.unlock()
    })
  })
}

describe('a client whose user may not say what it holds', () => {
  const fixture = setUpFixture()

  it('a client that may not say what it holds reports that once; its locks and waiters work', async () => {
    const { admin } = fixture.server
    const rule = ['reset', 'on', '>secret', '+@all', '~wanted', '~holdfast_turn_queue:*', '~first', '&*']
    await admin.call('ACL', 'SETUSER', 'mute', ...rule)
    const client = await fixture.connect(INSPECTION, fixture.server.url.replace('//', '//mute:secret@'))
    const codes: unknown[] = []
    client.on('warning', (warning) => codes.push((warning as { code?: string }).code))
    for (let n = 0; n < 2; n++) {
      const { wait, end } = await waitingFor(fixture, client, false)
      await end()
      await (await wait).unlock()
    }
    assert.deepEqual(codes, ['INSPECTION_REFUSED'])
  })
})

/** The client waits for a lock that another one holds. */
async function waitingFor(fixture: Fixture, client: Client, isPresent = true) {
  const other = await fixture.connect()
  const foreign = await other.getLock('wanted').lock()
  const wait = client.getLock('wanted').lock({ label: 'waits' })
  wait.catch(() => {})
  await waitUntil(async () => (await fixture.server.admin.exists('holdfast_turn_queue:{wanted}')) === 1)
  if (isPresent) {
    await waitUntil(async () => await isListening(fixture, client), { message: 'its inbox' })
    await waitUntil(async () => (await fixture.server.admin.exists(`holdfast_client:${client.id}`)) === 1)
  }
  return { wait, end: async () => await foreign.unlock() }
}

/** The ids of the connections to the server, of each kind. */
async function connections({ server: { admin } }: Fixture): Promise<{ normal: string; pubsub: string }> {
  const idsOf = async (type: string): Promise<string> =>
    [...String(await admin.call('CLIENT', 'LIST', 'TYPE', type)).matchAll(/^id=(\d+)/gm)]
      .map(([, id]) => id)
      .sort() // Redis lists them in changing order
      .join()
  return { normal: await idsOf('normal'), pubsub: await idsOf('pubsub') }
}

async function isListening({ server }: Fixture, { id }: Client): Promise<boolean> {
  return (await server.admin.pubsub('CHANNELS', `holdfast_inbox:${id}`)).length === 1
}

async function recordOf(
  { server: { admin } }: Fixture,
  { id }: Client,
): Promise<NonNullable<ReturnType<typeof readRecord>>> {
  const key = `holdfast_client:${id}`
  const record = readRecord((await admin.get(key)) ?? '', await admin.pttl(key))
  assert(record, 'there is a record')
  return record
}

async function ask({ server: { admin } }: Fixture, { id }: Client): Promise<StateReply> {
  const asker = admin.duplicate()
  try {
    const texts: string[] = []
    asker.on('message', (_channel, text: string) => texts.push(text))
    await asker.subscribe(REPLY)
    await admin.publish(`holdfast_inbox:${id}`, writeStateRequest({ reply: REPLY, limit: 200 }))
    await waitUntil(() => texts.length > 0, { message: 'a reply' })
    const reply = readStateReply(texts[0] ?? '')
    assert(reply, 'it is a reply')
    return reply
  } finally {
    asker.disconnect()
  }
}

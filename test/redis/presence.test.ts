/** A client on a real Redis lets others ask it: who it is, what it holds and waits for. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readStateReply, type StateReply, writeStateRequest } from '../../src/fleet/protocol.js'
import { RECORD_TTL_MS, readRecord } from '../../src/fleet/record.js'
import type { Client } from '../../src/index.js'
import { drivers, type Lab, setUpLab } from '../support/lab.js'
import { waitUntil } from '../support/wait-until.js'

const INSPECTION = { inspection: { name: 'orders', host: 'host-1' } }
const REPLY = `holdfast_reply:${'0'.repeat(32)}`

for (const driver of drivers) {
  describe(`a client, through ${driver.name}`, () => {
    const lab = setUpLab(driver)

    it('sends nothing more for a lock that nobody else wants, and opens no connection', async () => {
      const { admin } = lab.server
      const client = await lab.connect(INSPECTION)
      const lock = client.getLock('a')
      await (await lock.lock()).unlock()
      await admin.config('RESETSTAT')
      for (let n = 0; n < 10; n++) await (await lock.lock()).unlock()
      const calls = /^cmdstat_(\w+):calls=(\d+)/gm
      const sent = [...(await admin.info('commandstats')).matchAll(calls)].map(([, name, count]) => [name, count])
      const ours = sent.filter(([name]) => /^(evalsha|set|subscribe|client|ping)$/.test(name ?? ''))
      assert.deepEqual(ours, [['evalsha', '20']])
      assert.deepEqual(await admin.pubsub('CHANNELS'), [])
    })

    it('can be asked from its first wait on, and has a record, both until it is closed', async () => {
      const client = await lab.connect(INSPECTION)
      const { wait, end } = await waitingFor(lab, client)
      const { client: info, ageMs } = await recordOf(lab, client)
      assert.deepEqual([info.id, info.name, info.host, info.pid], [client.id, 'orders', 'host-1', process.pid])
      assert.ok(ageMs < RECORD_TTL_MS / 2)

      const hold = await client.getLock('held').lock({ label: 'refund' })
      const { holds, waits } = await ask(lab, client)
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
      assert.deepEqual((await ask(lab, client)).waits, [])
      await client.close()
      assert.equal(await lab.server.admin.exists(`holdfast_client:${client.id}`), 0)
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS', 'holdfast_inbox:*')).length === 0)
    })

    it('can be asked again after its connections were lost, and Redis its data', async () => {
      const { admin } = lab.server
      const client = await lab.connect(INSPECTION)
      const { wait, end } = await waitingFor(lab, client)
      await end()
      await (await wait).unlock()
      await admin.flushall()
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await waitUntil(async () => (await admin.exists(`holdfast_client:${client.id}`)) === 1, { message: 'a record' })
      await waitUntil(async () => await isListening(lab, client), { message: 'its inbox' })
      assert.equal((await ask(lab, client)).client, client.id)
    })
  })
}

describe('a client whose user may not say what it holds', () => {
  const lab = setUpLab()

  it('reports that once; its locks and their waiters work', async () => {
    const { admin } = lab.server
    const rule = ['reset', 'on', '>secret', '+@all', '~wanted', '~holdfast_turn_queue:*', '~first', '&*']
    await admin.call('ACL', 'SETUSER', 'mute', ...rule)
    const client = await lab.connect(INSPECTION, lab.server.url.replace('//', '//mute:secret@'))
    const codes: unknown[] = []
    client.on('warning', (warning) => codes.push((warning as { code?: string }).code))
    for (let n = 0; n < 2; n++) {
      const { wait, end } = await waitingFor(lab, client, false)
      await end()
      await (await wait).unlock()
    }
    assert.deepEqual(codes, ['INSPECTION_REFUSED'])
  })
})

/** The client waits for a lock that another one holds. */
async function waitingFor(lab: Lab, client: Client, isPresent = true) {
  const other = await lab.connect()
  const foreign = await other.getLock('wanted').lock()
  const wait = client.getLock('wanted').lock({ label: 'waits' })
  wait.catch(() => {})
  await waitUntil(async () => (await lab.server.admin.exists('holdfast_turn_queue:{wanted}')) === 1)
  if (isPresent) {
    await waitUntil(async () => await isListening(lab, client), { message: 'its inbox' })
    await waitUntil(async () => (await lab.server.admin.exists(`holdfast_client:${client.id}`)) === 1)
  }
  return { wait, end: async () => await foreign.unlock() }
}

async function isListening({ server }: Lab, { id }: Client): Promise<boolean> {
  return (await server.admin.pubsub('CHANNELS', `holdfast_inbox:${id}`)).length === 1
}

async function recordOf(
  { server: { admin } }: Lab,
  { id }: Client,
): Promise<NonNullable<ReturnType<typeof readRecord>>> {
  const key = `holdfast_client:${id}`
  const record = readRecord((await admin.get(key)) ?? '', await admin.pttl(key))
  assert(record, 'there is a record')
  return record
}

async function ask({ server: { admin } }: Lab, { id }: Client): Promise<StateReply> {
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

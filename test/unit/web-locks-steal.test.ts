/** What a thief takes with `client.locks.request(name, { steal: true })`. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const DELAYS_MS: Readonly<Record<string, number>> = { 'queue/acquire': 300, 'read-lock/inspect': 1_000 }

it('a thief of client.locks does not take the lock from itself, if it looks for holders while it is granted', async () => {
  const fixture = new ClientFixture({ inspection: false })
  const { client, other, otherPort, clock, redis } = fixture
  await Promise.all([client, other].map(({ locks }) => locks.query())) // from now on they need no file
  const robbed = client.locks.request('a', () => new Promise(() => {}))
  const lost = assert.rejects(robbed, { name: 'AbortError' })
  await clock.advance(100)
  otherPort.fault = ({ name }) => ({ replyMs: DELAYS_MS[name] })
  let finish = (): void => {}
  const steal = other.locks.request('a', { steal: true }, (lock) => {
    return new Promise<string>((resolve) => {
      finish = () => resolve(lock.signal.aborted ? 'lost' : 'held')
    })
  })
  await clock.advance(5_000)
  const { held } = await clock.until(other.locks.query())
  assert.deepEqual(
    held.map(({ clientId }) => clientId),
    [other.id],
  )
  finish()
  assert.equal(await clock.until(steal), 'held')
  await clock.until(lost)
  redis.flush()
  await fixture.close()
})

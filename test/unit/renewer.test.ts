import assert from 'node:assert/strict'
import { it, mock } from 'node:test'
import { Scripts } from '../../src/delivery/scripts.js'
import { lockRenew } from '../../src/lua/generated.js'
import type { Renewable } from '../../src/watchdog/renewable.js'
import { Renewer } from '../../src/watchdog/renewer.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const HOLDER = 'client:1'
const LEASE_MS = 3_000

it('a renewal tells each lease how it went, unless that is not wanted any more when the reply arrives', async () => {
  const clock = new FakeClock()
  const port = new FakePort(clock)
  const scripts = new Scripts(port, clock, LEASE_MS)
  const outcomes: unknown[] = []
  const unwanted = new Set<Renewable>()
  const lease = (name: string): Renewable => ({
    renewal: () => lockRenew([name], [HOLDER, LEASE_MS]),
    renewed: (sentAt, leftMs) => outcomes.push([name, sentAt, leftMs]),
    markLost: () => outcomes.push([name, 'lost']),
  })
  const [kept, lost, released, forgotten] = ['kept', 'lost', 'released', 'forgotten'].map(lease) as [
    Renewable,
    Renewable,
    Renewable,
    Renewable,
  ]
  for (const name of ['kept', 'released']) port.redis.set(name, HOLDER, 1, LEASE_MS)
  const isWanted = (one: Renewable): boolean => !unwanted.has(one)
  const unexpected = (error: unknown): void => assert.fail(String(error))
  const random = { uuid: () => '', fraction: () => 0.5 }
  const renewer = new Renewer(clock, random, scripts, { periodMs: 1_000, batchSize: 100 }, isWanted, unexpected)

  const learnt = mock.method(scripts, 'learn')
  port.once('lock/renew', { replyMs: 100 })
  const sentAt = clock.now()
  await renewer.renew([kept, lost, released, forgotten])
  unwanted.add(released).add(forgotten)
  await clock.advance(100)
  assert.deepEqual(outcomes, [
    ['kept', sentAt, LEASE_MS],
    ['lost', 'lost'],
  ])
  assert.equal(learnt.mock.callCount(), 1, 'where the keys are, before they go in one command')
  await renewer.renew([kept])
  assert.equal(learnt.mock.callCount(), 1, 'one key may be anywhere')
})

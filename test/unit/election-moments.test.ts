/** An election at awkward moments: it is resigned or lost while a grant arrives, or Redis cannot be asked. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type ElectionOptions, OutcomeUnknownError } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import { SCRIPT_NAMES } from '../support/script-names.js'

const LEASE_MS = 30_000
const NAME = 'leader:report'
/** More microtasks than there are between a grant and `onElected`. */
const MICROTASKS = 40

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({})
})

afterEach(() => fixture.close())

function elect(onElected: ElectionOptions['onElected'], onLost?: ElectionOptions['onLost']) {
  return fixture.client.elect(NAME, { onElected, onLost })
}

/** Does something so many microtasks after the next reply of Redis to anything but a question for the time. */
function afterReply(microtasks: number, action: () => void): void {
  const { port } = fixture
  const send = port.send.bind(port)
  const interrupt = async (): Promise<void> => {
    for (let count = 0; count < microtasks; count++) await undefined
    action()
  }
  port.send = async (command, key) => {
    if (SCRIPT_NAMES.get(command[1] ?? '') === 'time/read') return await send(command, key)
    const reply = await send(command, key)
    port.send = send
    void interrupt()
    return reply
  }
}

/** Work that a test ends, whatever becomes of its signal. */
function work(): { done: () => void; ended: Promise<void> } {
  let done = (): void => {}
  const ended = new Promise<void>((resolve) => {
    done = resolve
  })
  return { done, ended }
}

describe('onElected', () => {
  it('onElected is not called after the election was resigned, however close to the grant', async () => {
    let calls = 0
    for (let microtasks = 0; microtasks < MICROTASKS; microtasks++) {
      let isResigned = false
      const election = elect(() => {
        calls++
        assert.equal(isResigned, false)
      })
      afterReply(microtasks, () => {
        isResigned = true
        void election.resign()
      })
      await fixture.clock.until(election.finished)
    }
    assert(calls > 0 && calls < MICROTASKS, `${calls} calls`)
  })

  it('onElected is not called with a hold whose lease is over when the process paused at the grant', async () => {
    for (let microtasks = 0; microtasks < MICROTASKS; microtasks++) {
      const election = elect((_signal, hold) => hold.assertHeld())
      afterReply(microtasks, () => fixture.clock.block(LEASE_MS))
      await fixture.clock.advance(60_000)
      assert.equal(election.isLeader, true, 'it is elected again')
      await fixture.clock.until(election.resign())
    }
  })
})

describe('leadership that was resigned', () => {
  it('leadership that was resigned is not lost, even if the lock is forced open meanwhile', async () => {
    const { done, ended } = work()
    const election = elect(
      () => ended,
      () => assert.fail('lost'),
    )
    await fixture.clock.advance(100)
    const resigned = election.resign()
    await fixture.clock.until(fixture.client.getLock(NAME).forceUnlock())
    await fixture.clock.advance(2 * LEASE_MS)
    assert.deepEqual(
      fixture.warnings.map(({ code }) => code),
      ['LEADER_STILL_RUNNING'],
    )
    done()
    await fixture.clock.until(resigned)
  })

  it('leadership that was resigned does not keep the process alive while onElected ends', async () => {
    const { done, ended } = work()
    const election = elect(() => ended)
    await fixture.clock.advance(100)
    const before = fixture.clock.keepingAlive
    const resigned = election.resign()
    await turn()
    assert.equal(fixture.clock.keepingAlive, before)
    done()
    await fixture.clock.until(resigned)
  })
})

describe('a campaign while Redis cannot be asked', () => {
  for (const [title, fault, isCause] of [
    [
      'is not ready',
      { errorReply: 'LOADING Redis is loading the dataset in memory' },
      (cause: unknown) => cause instanceof Error && cause.message.startsWith('LOADING'),
    ],
    ['is silent', { lost: 'request' }, (cause: unknown) => cause instanceof OutcomeUnknownError],
  ] as const) {
    it(`a campaign is repeated as long as Redis ${title}`, async () => {
      fixture.port.fault = ({ name }) => (name === 'fenced-lock/acquire' ? fault : undefined)
      const election = elect(() => {})
      await fixture.clock.advance(60_000)
      assert(fixture.warnings.length > 1)
      assert(fixture.warnings.every(({ code, cause }) => code === 'CAMPAIGN_FAILED' && isCause(cause)))
      fixture.port.fault = () => undefined
      await fixture.clock.advance(60_000)
      assert.equal(election.isLeader, true)
      await fixture.clock.until(election.resign())
    })
  }

  for (const [title, fsynced, isRepeated] of [
    ['ends with an error if the server cannot tell whether a grant is on disk', undefined, false],
    ['is repeated if a grant was not on disk in time', 'late', true],
  ] as const) {
    it(`a campaign ${title}`, async () => {
      const { client, port } = fixture.connect({ checkLockFsynced: true })
      Object.assign(port, { fsynced: async () => fsynced })
      const election = client.elect(NAME, { onElected: () => assert.fail('elected') })
      const end = election.finished.then(
        () => 'resigned',
        (error: { code?: string }) => error.code,
      )
      await fixture.clock.advance(60_000)
      await fixture.clock.until(election.resign().catch(() => {}))
      assert.equal(await end, isRepeated ? 'resigned' : 'LOCK_NOT_DURABLE')
      assert.equal(port.count('fenced-lock/acquire') > 1, isRepeated)
    })
  }

  it('a campaign is repeated after pauses of half a minute at most while Redis cannot be asked', async () => {
    fixture.port.fault = ({ name }) =>
      name === 'fenced-lock/acquire' ? { errorReply: 'OOM command not allowed' } : undefined
    const startedAt = fixture.clock.now()
    const election = elect(() => {})
    await fixture.clock.advance(200_000)
    const times = fixture.port.sent.filter(({ name }) => name === 'fenced-lock/acquire').map(({ at }) => at - startedAt)
    const pauses = times.slice(1).map((at, index) => at - (times[index] as number))
    assert.deepEqual(pauses.slice(0, 5), [1_500, 3_000, 6_000, 12_000, 22_500])
    assert(pauses.every((pause) => pause <= 30_000))
    await fixture.clock.until(election.resign())
  })
})

/** The inbox of a client: which ticket hears of which message, and of messages that it may have missed. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Inbox, type TurnMessage } from '../../src/waiting/inbox.js'
import { Wakeups } from '../../src/waiting/wakeups.js'
import { INBOX_PREFIX } from '../../src/wire/keys.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const CHANNEL = `${INBOX_PREFIX}me`

let clock: FakeClock
let port: FakePort
let inbox: Inbox
/** The messages that are about no ticket. */
let others: string[]

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock)
  const wakeups = new Wakeups(port, clock, { uuid: () => 'id', fraction: () => 0.5 }, { onRefused() {} })
  port.listen({
    reconnected() {},
    subscriptionLost: (name) => wakeups.subscriptionLost(name),
    resubscribed: (name) => wakeups.resubscribed(name),
  })
  others = []
  inbox = new Inbox('me', wakeups, (text) => others.push(text))
})

afterEach(() => assert.equal(clock.pending, 0, 'no timer is left'))

async function receive(...messages: string[]): Promise<void> {
  for (const message of messages) port.redis.publish(CHANNEL, message)
  await turn()
}

/** Opens a ticket. @returns what it hears */
function open(number?: string, since?: number): TurnMessage[] {
  const heard: TurnMessage[] = []
  inbox.open((message) => heard.push(message), number, since)
  return heard
}

describe('a ticket', () => {
  beforeEach(async () => {
    inbox.keepOpen()
    await turn()
  })

  it('a ticket hears what is sent to it, and no other ticket does', async () => {
    const [first, second, again] = [open('1'), open('2'), open('1')]
    await receive('turn 1', 'next 2', 'other 1', 'turn', '{"who":1}')
    assert.deepEqual(
      [first, second, again],
      [
        [undefined, 'turn'],
        [undefined, 'next'],
        [undefined, 'turn'],
      ],
    )
    assert.deepEqual(others, ['{"who":1}'])
  })

  it('a ticket has missed nothing if it was opened in the epoch in which Redis learned of it', async () => {
    const since = inbox.epoch
    assert.deepEqual([open('1', since), open('2'), open('3', -1)], [[], [undefined], [undefined]])
    port.loseSubscriber()
    assert.equal(inbox.epoch, undefined)
    port.resubscribe()
    await turn()
    assert.notEqual(inbox.epoch, since)
    assert.deepEqual(open('4', since), [undefined])
  })

  it('a ticket hears that there was a message if that came before it was opened, and only once', async () => {
    const since = inbox.epoch
    await receive('turn 1', 'next 2', 'noise 3')
    assert.deepEqual([open('1', since), open('3', since), open('1', since)], [[undefined], [], []])
    await receive('turn 1')
    assert.deepEqual(open('1', since), [], 'it was heard by the other')
  })

  it('a ticket cannot be sure of the epoch once a thousand messages came for tickets that are not open', async () => {
    const since = inbox.epoch
    await receive(...Array.from({ length: 1_000 }, (_, n) => `turn ${n}`))
    assert.deepEqual([inbox.epoch, open('7', since), open('1001', since)], [since, [undefined], []])
    await receive('turn 7', 'turn 1002', 'turn 1003')
    assert.deepEqual(open('8', since), [undefined])
    assert((inbox.epoch as number) > (since as number), 'an epoch never comes again')
    assert.deepEqual(open('9', inbox.epoch), [])
    assert.deepEqual(open('1003', inbox.epoch), [undefined])
  })

  it('a ticket hears of nothing that came before messages were missed', async () => {
    await receive('turn 1')
    port.loseSubscriber()
    port.resubscribe()
    await turn()
    assert.deepEqual(open('1', inbox.epoch), [])
  })

  it('a ticket that was closed hears nothing, and leaves the others of its number', async () => {
    const [closed, open]: TurnMessage[][] = [[], []]
    const ticket = inbox.open((message) => closed?.push(message), '1')
    inbox.open((message) => open?.push(message), '1')
    ticket.close()
    await receive('turn 1')
    assert.deepEqual([closed, open], [[undefined], [undefined, 'turn']])
  })
})

describe('an inbox', () => {
  it('an inbox is subscribed to while it has a ticket or is kept open', async () => {
    const tickets = [inbox.open(() => {}), inbox.open(() => {})]
    assert.deepEqual(
      tickets.map(({ id }) => id),
      ['me:1', 'me:2'],
    )
    assert.equal(inbox.isLive, false)
    await turn()
    assert.deepEqual([inbox.isLive, inbox.isRefused, port.channels], [true, false, [CHANNEL]])
    inbox.keepOpen()
    for (const ticket of tickets) ticket.close()
    assert.deepEqual([inbox.hasTickets, port.channels], [false, [CHANNEL]])
    const last = inbox.open(() => {})
    inbox.release()
    await turn()
    assert.deepEqual([inbox.hasTickets, port.channels], [true, [CHANNEL]])
    last.close()
    await turn()
    assert.deepEqual([inbox.isLive, port.channels], [false, []])
  })

  it('an inbox knows its channel', () => {
    assert.deepEqual([inbox.is(CHANNEL), inbox.is(`${CHANNEL}2`)], [true, false])
  })
})

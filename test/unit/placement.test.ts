/** When keys of different names go in one command: once one server is known to have them, and only as long. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { beforeEach, describe, it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { otherTags } from '../../src/delivery/placement.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { lockRelease } from '../../src/lua/generated.js'
import { tagOf } from '../../src/wire/slots.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

const release = (name: string) => lockRelease(name, 'me:1', 'channel', '0')

describe('keys of different names', () => {
  let clock: FakeClock
  let scripts: Scripts
  let serverOf: (key: string) => string | Promise<never>
  let sent: string[][]
  let areSeveral: number

  beforeEach(() => {
    clock = new FakeClock()
    sent = []
    areSeveral = 0
    serverOf = () => 'one'
    const port: RedisPort = {
      async send(command) {
        const [name, text = '', count, ...words] = command
        const keys = words.slice(0, Number(count))
        if (name === 'EVAL' && text.includes('run_id')) return await serverOf(keys[0] as string)
        sent.push(keys)
        return keys.length === 1 ? null : [[], keys.map(() => null)]
      },
      isErrorReply: () => true,
      subscribe: async () => {},
      unsubscribe: async () => {},
      listen: () => {},
      close: async () => {},
    }
    const onSeveral = (): void => {
      areSeveral++
    }
    scripts = new Scripts(port, clock, 3_000, { onSeveralServers: onSeveral })
  })

  const names = (count: number, of = 'order:'): string[] => Array.from({ length: count }, (_, n) => `${of}${n}`)
  /** How many commands these calls of one turn took. */
  async function commandsFor(of: readonly string[]): Promise<number> {
    const before = sent.length
    await Promise.all(of.map((name) => scripts.run(release(name))))
    await turn()
    await turn()
    return sent.length - before
  }

  it('keys of different names go together once one server is known to have them', async () => {
    assert.equal(await commandsFor(names(8)), 8)
    assert.equal(await commandsFor(names(8)), 1)
    assert.equal(scripts.groupOf('order:1'), scripts.groupOf('order:2'))
  })

  it('keys of different names are not asked about while there is only one at a time', async () => {
    let asked = 0
    serverOf = () => `${asked++}`
    for (const name of names(20)) assert.equal(await commandsFor([name]), 1)
    assert.equal(await commandsFor(['order:1', 'order:1']), 2)
    assert.equal(asked, 0)
  })

  it('keys of different names are not asked about again once they are known to be on several servers', async () => {
    let asked = 0
    serverOf = (key) => {
      asked++
      return key.slice(-2)
    }
    await commandsFor(names(8))
    const first = asked
    assert.ok(first > 0)
    for (let round = 0; round < 3; round++) await commandsFor(names(8))
    assert.equal(asked, first)
  })

  it('keys of different names go apart if they are on several servers, which is said once', async () => {
    serverOf = (key) => key.slice(-2)
    for (let round = 0; round < 3; round++) assert.equal(await commandsFor(names(8)), 8)
    assert.equal(areSeveral, 1)
    assert.notEqual(scripts.groupOf('order:1'), scripts.groupOf('order:2'))
    assert.equal(scripts.groupOf('{order}:1'), scripts.groupOf('{order}:2'))
    scripts.reconnected()
    await commandsFor(names(8))
    assert.equal(areSeveral, 1)
  })

  it('keys of different names that begin differently are asked about before they go with the others', async () => {
    const asked: string[] = []
    serverOf = (key) => {
      asked.push(key)
      return key.startsWith('stock:') ? 'two' : 'one'
    }
    await commandsFor(names(8))
    assert.equal(await commandsFor(names(8)), 1)
    asked.length = 0
    assert.equal(await commandsFor([...names(2), 'price:1', 'price:2']), 3)
    assert.deepEqual(asked, ['price:2'])
    assert.equal(await commandsFor([...names(2), 'price:1', 'price:2']), 1)
    assert.equal(await commandsFor(['order:1', 'stock:1']), 2)
    assert.equal(areSeveral, 1)
    assert.equal(await commandsFor(names(8)), 8)
  })

  it('keys of different names go apart if one server has only a tenth of the keys', async () => {
    const shardOf = (key: string): string =>
      (createHash('md5').update(tagOf(key)).digest()[0] as number) < 26 ? 'a' : 'b'
    for (let round = 0; round < 100; round++) {
      serverOf = shardOf
      scripts.reconnected()
      await commandsFor(names(8))
      assert.equal(await commandsFor(names(8)), 8, `in round ${round}`)
    }
  })

  it('keys of different names without a digit each begin differently', async () => {
    await commandsFor(names(8))
    const asked: string[] = []
    serverOf = (key) => {
      asked.push(key)
      return 'one'
    }
    await commandsFor(['stock-a', 'stock-b', 'x1y', 'x2y'])
    assert.deepEqual(asked, ['stock-a', 'stock-b', 'x2y'])
  })

  it('keys of different names are asked about by 200 at once, however many there are', async () => {
    await commandsFor(names(8))
    let asked = 0
    serverOf = () => {
      asked++
      return 'one'
    }
    await scripts.learn(Array.from({ length: 300 }, (_, n) => `user:${String.fromCodePoint(0x4e00 + n)}`))
    assert.equal(asked, 200)
  })

  it('keys of different names are not asked about for ever, however they begin', async () => {
    let asked = 0
    serverOf = () => {
      asked++
      return 'one'
    }
    const words = Array.from({ length: 1_000 }, (_, n) => `user:${String.fromCodePoint(0x4e00 + n)}`)
    for (let at = 0; at < words.length; at += 20) await commandsFor(words.slice(at, at + 20))
    assert(asked <= 200 + otherTags('').length, `${asked} questions`)
    assert.equal(await commandsFor(words.slice(-32)), 1)
  })

  it('keys of different names go apart after a reconnect, until one server is known to have them', async () => {
    await commandsFor(names(8))
    scripts.assertTogether(names(3))
    scripts.reconnected()
    assert.throws(() => scripts.assertTogether(names(3)), /^Error: CROSSSLOT/)
    assert.equal(await commandsFor(names(8)), 8)
    assert.equal(await commandsFor(names(8)), 1)
  })

  it('keys of different names go apart without an answer, and the question is asked again later', async () => {
    serverOf = () => Promise.reject(new Error("NOPERM this user has no permissions to run the 'eval' command"))
    for (let round = 0; round < 3; round++) assert.equal(await commandsFor(names(8)), 8)
    serverOf = () => 'one'
    assert.equal(await commandsFor(names(8)), 8)
    await clock.advance(5_000)
    await commandsFor(names(8))
    assert.equal(await commandsFor(names(8)), 1)
    assert.equal(areSeveral, 0)
  })

  it('keys of different names go apart after a second without an answer', async () => {
    serverOf = () => new Promise<never>(() => {})
    const startedAt = clock.now()
    await clock.until(Promise.resolve(scripts.learn(names(3))))
    assert.equal(clock.now() - startedAt, 1_000)
    assert.throws(() => scripts.assertTogether(names(3)), /CROSSSLOT/)
  })

  it('an answer that was on its way when the connection changed does not count', async () => {
    let answer: (server: string) => void = () => {}
    const late = new Promise<string>((resolve) => {
      answer = resolve
    })
    serverOf = () => late as Promise<never>
    await commandsFor(names(8))
    scripts.reconnected()
    answer('one')
    await turn()
    assert.notEqual(scripts.groupOf('order:1'), scripts.groupOf('order:2'))
  })

  it('a key that goes alone since the connection changed overtakes no call', async () => {
    await scripts.learn(names(4))
    const calls = [scripts.run(release('order:1')), scripts.run(release('order:2'))]
    scripts.reconnected()
    for (const name of ['order:3', 'order:1']) calls.push(scripts.run(release(name)))
    await Promise.all(calls)
    assert.deepEqual(sent, [['order:1', 'order:2'], ['order:3'], ['order:1']])
  })

  it('one call with several keys waits for the answer, and is refused without one', async () => {
    assert.throws(() => scripts.assertTogether(names(3)), /CROSSSLOT/)
    await scripts.learn(names(3))
    scripts.assertTogether(names(3))
    assert.equal(scripts.learn(names(3)), undefined)
  })
})

describe('keys with other hash tags', () => {
  for (const key of ['lock:a', 'lock:{a}:b', '{order:1}']) {
    it(`the keys with other tags than ${key} begin like it, and may each be in another slot`, () => {
      const others = otherTags(key)
      const beginning = key.split(/(?<=\{.*)\}/, 1)[0] as string
      for (const other of others) assert(other.startsWith(beginning), other)
      const tags = new Set([key, ...others].map(tagOf))
      assert.equal(tags.size, others.length + 1, others.join())
      assert(![...tags].some((tag) => others.includes(tag)), 'each has a tag')
    })
  }
})

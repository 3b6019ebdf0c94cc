/** Commands that ask every master, such as SCAN: one of a cluster, or the only server. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { RedisPort } from '../../src/adapters/port.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

function scriptsOn(port: Partial<RedisPort>): Scripts {
  return new Scripts({ isErrorReply: () => false, ...port } as RedisPort, new FakeClock(), 3_000)
}

it('the masters of a cluster are asked one by one', async () => {
  const sendTo = async (master: string, words: readonly string[]): Promise<unknown> => [master, words]
  const scripts = scriptsOn({ masters: async () => ['one', 'two'], sendTo })
  assert.deepEqual(await scripts.masters(), ['one', 'two'])
  assert.deepEqual(await scripts.commandAt('two', ['SCAN', '0']), ['two', ['SCAN', '0']])
})

it('the only server is asked as one master, whatever it is called', async () => {
  const scripts = scriptsOn({ send: async (words, key) => [words, key] })
  const masters = await scripts.masters()
  assert.equal(masters.length, 1)
  assert.deepEqual(await scripts.commandAt(masters[0] as string, ['SCAN', '0']), [['SCAN', '0'], ''])
})

it('the masters of a cluster that does not answer are waited for as long as for a reply', async () => {
  const clock = new FakeClock()
  const port = { isErrorReply: () => false, masters: () => new Promise(() => {}) } as unknown as RedisPort
  const startedAt = clock.now()
  await assert.rejects(clock.until(new Scripts(port, clock, 3_000).masters()), { code: 'NO_REPLY' })
  assert.equal(clock.now() - startedAt, 3_000)
})

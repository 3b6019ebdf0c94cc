import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'

describe('kinds of locks that share the hash of the plain lock', () => {
  const fixture = setUpFixture()
  const kinds: Readonly<Record<string, (client: Client) => Pick<Lock, 'lock' | 'tryLock' | 'getHolders'>>> = {
    plain: (client) => client.getLock('order'),
    fair: (client) => client.getFairLock('order'),
    'non-reentrant': (client) => client.getNonReentrantLock('order'),
    'non-reentrant fair': (client) => client.getNonReentrantFairLock('order'),
    fenced: (client) => client.getFencedLock('order'),
    spin: (client) => client.getSpinLock('order'),
  }

  for (const [title, lockOf] of Object.entries(kinds)) {
    it(`locks of different kinds exclude each other on one name: ${title}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del('redisson_lock_token:{order}'))
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const hold = await lockOf(client).lock()
      for (const otherKind of Object.values(kinds)) {
        assert.equal(await otherKind(other).tryLock(), null)
        assert.deepEqual(await otherKind(other).getHolders(), [{ holder: hold.holder, holdCount: 1 }])
      }
      await hold.unlock()
    })
  }
})

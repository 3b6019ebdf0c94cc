import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { aclRule } from '../../src/doctor/acl.js'
import { hold, webLocksContract } from '../contract/web-locks.js'
import { setUpFixture } from '../support/fixture.js'
import { ENGINE_VERSION } from '../support/servers/engine.js'

describe('client.locks', () => webLocksContract((options) => setUpFixture(undefined, [], options)))

describe('what client.locks has in Redis', () => {
  const fixture = setUpFixture()

  it('client.locks.query leaves out what its user may not read', async () => {
    const client = await fixture.connect()
    const { admin, url } = fixture.server
    await admin.call('ACL', ...aclRule('some', 'lock:', ENGINE_VERSION).split(' ').slice(1))
    const other = await fixture.connect({}, url.replace('//', '//some:secret@'))
    const holding = await Promise.all(['lock:a', 'b'].map((name) => hold(client, name)))
    const names = (await other.locks.query()).held.map(({ name }) => name)
    assert.deepEqual(names, ['lock:a'])
    for (const { release, promise } of holding) {
      release()
      await promise
    }
  })

  it('the list that client.locks.query reads expires, and drops names that nobody requests', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    await admin.zadd('holdfast_web_locks', '1', 'old')
    await client.locks.request('a', () => {})
    assert.deepEqual(await admin.zrange('holdfast_web_locks', '0', '-1'), ['a'])
    assert.ok((await admin.pttl('holdfast_web_locks')) > 0)
  })
})

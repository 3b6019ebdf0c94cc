import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { Client } from '../../src/client.js'
import { systemRandom } from '../../src/util/random.js'
import { isMarked, markedId } from '../../src/wire/client-id.js'
import { checkHolder, formatHolder, Owners } from '../../src/wire/holder.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('a holder', () => {
  it('a holder is spelled <client id>:<owner id>', () => {
    assert.equal(formatHolder('9c5c8f8e-9a3f-4f43-8d0c-6a4c40a1e3a1', 42), '9c5c8f8e-9a3f-4f43-8d0c-6a4c40a1e3a1:42')
  })

  it('a holder of a hold names the client, and an owner of its own', async () => {
    const clock = new FakeClock()
    const client = new Client(new FakePort(clock), {}, { clock })
    const [first, second] = [await client.getLock('a').lock(), await client.getLock('b').lock()]
    assert.equal(first.holder, `${client.id}:${first.ownerId}`)
    assert.equal(second.holder, `${client.id}:${second.ownerId}`)
    assert.notEqual(first.ownerId, second.ownerId)
    await clock.until(client.close())
  })

  it('a holder that another process passed on is taken as it was spelled', () => {
    for (const holder of [formatHolder(systemRandom.uuid(), 1), formatHolder('some_client', 2 ** 53 - 1)]) {
      assert.equal(checkHolder(holder, 'a'), holder)
    }
  })

  it('a holder that nobody can have spelled is refused', () => {
    const wrong = ['', 'a', 'a:', ':1', 'a:0', 'a:-1', 'a:1.5', 'a:1e3', 'a:01', 'a:1:2', 'a b:1', 'a:1\n', 'a:1 ']
    for (const holder of [...wrong, `${'a'.repeat(65)}:1`, 'a:12345678901234567', 1, null, undefined, ['a:1'], {}]) {
      assert.throws(
        () => checkHolder(holder, 'a'),
        { code: 'LOCK_CONFIG', path: 'holder', value: holder },
        JSON.stringify(holder),
      )
    }
  })
})

describe('an owner id', () => {
  it('an owner id is a positive integer that no other owner of the client has', () => {
    const owners = new Owners()
    const ids = Array.from({ length: 1_000 }, () => owners.next().id)
    assert(ids.every((id) => Number.isSafeInteger(id) && id > 0))
    assert.equal(new Set(ids).size, ids.length)
  })
})

describe('an owner', () => {
  it('an owner claims each field once until it frees it, and knows which fields are of one lock', () => {
    const owner = new Owners().next()
    assert.equal(owner.claim('/a'), true)
    assert.equal(owner.claim('/a'), false)
    assert.deepEqual([owner.hasSameLock('write/a'), owner.hasSameLock('/b')], [true, false])
    assert.deepEqual([owner.hasOnly('/a'), owner.hasOnly('write/a'), owner.hasOnly('/b')], [true, false, true])
    owner.claim('/b')
    assert.deepEqual([owner.hasOnly('/a'), owner.hasSameLock('/b')], [true, true])
    owner.unclaim('/a')
    assert.deepEqual([owner.hasSameLock('/a'), owner.claim('/a')], [false, true])
  })

  it('an owner never takes a field again for which it is retired, and takes others', () => {
    const owner = new Owners().next()
    assert.deepEqual([owner.isSpent, owner.isRetiredFor('/a')], [false, false])
    owner.retire('/a')
    owner.retire('/b')
    assert.deepEqual([owner.isSpent, owner.isRetiredFor('/a'), owner.isRetiredFor('/c')], [true, true, false])
    assert.deepEqual([owner.claim('/a'), owner.claim('/b'), owner.claim('/c')], [false, false, true])
  })
})

describe('a client id', () => {
  it('a client id is a random UUID of its own', () => {
    const ids = Array.from({ length: 1_000 }, () => systemRandom.uuid())
    assert.deepEqual(
      ids.filter((id) => !UUID.test(id)),
      [],
    )
    assert.equal(new Set(ids).size, ids.length)
    assert.match(new Client(new FakePort(new FakeClock())).id, UUID)
  })

  it('a client id ends in eight digits that no id of Redisson ends in', () => {
    const id = markedId('01234567-89ab-4cde-8f01-23456789abcd')
    assert.equal(id, '01234567-89ab-4cde-8f01-2345401dfa57')
    assert.equal(isMarked(id), true)
    assert.equal(isMarked('01234567-89ab-4cde-8f01-23456789abcd'), false)
    assert.equal(isMarked('401dfa57-89ab-4cde-8f01-23456789abcd'), false)
  })

  it('a client id differs between two processes started from one snapshot', (t) => {
    const start = snapshotOf(t, 'systemRandom.uuid()')
    const [first, second] = [start(), start()]
    assert.match(first, UUID)
    assert.match(second, UUID)
    assert.notEqual(first, second)
  })
})

/**
 * Builds a start-up snapshot of a program that has made an id already and prints `expression` each time it is started;
 * returns how to start it. A snapshot takes one CommonJS file, so this bundles random.ts as it was compiled.
 */
function snapshotOf(t: TestContext, expression: string): () => string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-snapshot-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const contents = `import { startupSnapshot } from 'node:v8'
    import { systemRandom } from './random.js'
    ${expression}
    startupSnapshot.setDeserializeMainFunction(() => console.log(${expression}))`
  const resolveDir = fileURLToPath(new URL('../../src/util/', import.meta.url))
  const outfile = join(folder, 'main.cjs')
  buildSync({
    stdin: { contents, resolveDir },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    treeShaking: false,
  })

  const node = (...args: string[]): string => {
    const env = { ...process.env, NODE_OPTIONS: '' }
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    return stdout.trim()
  }
  node('--snapshot-blob', 'snapshot.blob', '--build-snapshot', 'main.cjs')
  return () => node('--snapshot-blob', 'snapshot.blob', 'main.cjs')
}

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { codeBlocksOf } from '../docs/code-blocks.js'
import { copySources } from '../support/copied-sources.js'

const exec = promisify(execFile)

describe('npm pack', () => {
  it('npm pack makes the same tarball of the same sources, whatever the place and the umask are', async (t) => {
    const [one, other] = await Promise.all([
      pack(t, 'a', 'umask 022'),
      pack(t, 'an/other/place', 'umask 077 && chmod -R go-rwx src ui site scripts *.* LICENSE'),
    ])
    assert(one.length > 100_000)
    assert(one.equals(other), 'the tarballs differ')
  })

  it('the hash that docs/versioning.md compares is the one that npm knows', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-hash-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const commands = codeBlocksOf('docs/versioning.md').flatMap(({ lines }) => lines)
    const command = commands.find((line) => line.startsWith('openssl')) ?? ''
    const [, file = ''] = /(\S+\.tgz)/.exec(command) ?? []
    writeFileSync(join(folder, file), 'a tarball')
    const { stdout } = await exec('sh', ['-c', command], { cwd: folder })
    assert.equal(stdout, createHash('sha512').update('a tarball').digest('base64'))
  })
})

async function pack(t: TestContext, path: string, prepare: string): Promise<Buffer> {
  const scratch = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  t.after(() => rmSync(scratch, { recursive: true }))
  const folder = copySources(join(scratch, path))
  const script = `${prepare} && node scripts/build.mjs && npm pack`
  await exec('sh', ['-c', script], { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' } })
  assert.match(readFileSync(join(folder, 'README.md'), 'utf8'), /\]\(docs\//, 'its links are relative again')
  const [tarball] = readdirSync(folder).filter((file) => file.endsWith('.tgz'))
  assert(tarball !== undefined)
  return readFileSync(join(folder, tarball))
}

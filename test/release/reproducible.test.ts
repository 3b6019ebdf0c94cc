import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** What the tarball is made of and with. */
const SOURCES = [
  'src',
  'ui',
  'site/icon.svg',
  'scripts',
  'grafana',
  'prometheus',
  'package.json',
  'tsconfig.json',
  'biome.json',
  'README.md',
  'LICENSE',
]

describe('npm pack', () => {
  it('npm pack makes the same tarball of the same sources, whatever the place and the umask are', async (t) => {
    const [one, other] = await Promise.all([
      pack(t, 'a', 'umask 022'),
      pack(t, 'an/other/place', 'umask 077 && chmod -R go-rwx src ui site scripts *.* LICENSE'),
    ])
    assert(one.length > 100_000)
    assert(one.equals(other), 'the tarballs differ')
  })
})

async function pack(t: TestContext, path: string, prepare: string): Promise<Buffer> {
  const scratch = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  t.after(() => rmSync(scratch, { recursive: true }))
  const folder = join(scratch, path)
  mkdirSync(folder, { recursive: true })
  for (const source of SOURCES) cpSync(join(ROOT, source), join(folder, source), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const script = `${prepare} && node scripts/build.mjs && npm pack`
  await promisify(execFile)('sh', ['-c', script], { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' } })
  assert.match(readFileSync(join(folder, 'README.md'), 'utf8'), /\]\(docs\//, 'its links are relative again')
  const [tarball] = readdirSync(folder).filter((file) => file.endsWith('.tgz'))
  assert(tarball !== undefined)
  return readFileSync(join(folder, tarball))
}

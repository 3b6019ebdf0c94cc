/** What README.md says to do until there is a version on npm: pack a clone, and install that in a project. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { copySources } from '../support/copied-sources.js'
import { withoutRepository } from '../support/without-repository.js'
import { codeBlocksOf } from './code-blocks.js'

const run = promisify(execFile)

it('the commands of README.md pack a clone and install it in a project, where its program runs', {
  timeout: 300_000,
}, async (t) => {
  const { lines = [] } = codeBlocksOf('README.md').find(({ lines: [first = ''] }) => first.startsWith('npm ci')) ?? {}
  const [inClone = '', inProject = '', ...others] = lines
  assert.deepEqual(others, [])
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-clone-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const env = withoutRepository(process.env)

  // The tools that npm ci fetches are there.
  const packing = inClone.replace('npm ci && ', '')
  await run('bash', ['-e', '-c', packing], { cwd: copySources(join(folder, 'holdfast')), env })
  const project = join(folder, 'project')
  mkdirSync(project)
  await run('bash', ['-e', '-c', inProject], { cwd: project, env })
  const { stdout } = await run(process.execPath, ['node_modules/holdfast/dist/cli/main.js', '--version'], {
    cwd: project,
  })
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  assert.match(stdout, new RegExp(`${version.replaceAll('.', '\\.')}$`, 'm'))
})

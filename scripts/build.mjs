// src → dist. `--check` refuses stale generated files instead of writing them again.
import { chmodSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root, run, since } from './run.mjs'

const start = performance.now()
const check = process.argv.includes('--check') ? ['--check'] : []
run(process.execPath, ['scripts/embed-lua.mjs', ...check])
run(process.execPath, ['scripts/translate-lua.mjs', ...check])

rmSync(join(root, 'dist'), { recursive: true, force: true })
run('tsc', ['-p', 'tsconfig.json'])

const cli = join(root, 'dist', 'cli', 'main.js')
if (existsSync(cli)) chmodSync(cli, 0o755)
console.log(`Built dist in ${since(start)}`)

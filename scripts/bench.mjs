// npm run bench -- [--workloads w1,w3] [--libraries holdfast,redlock-5] [--rounds 3] [--json] …: see bench/src/main.ts
// Holdfast beside the other locks. What that needs is a package of its own, and is installed the first time.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, fail, root, run } from './run.mjs'
import { ensureRedis } from './setup-redis.mjs'

const bench = join(root, 'bench')

ensureRedis()
if (!isInstalled()) {
  console.error('Installing the other libraries into bench/ …')
  const { ok, output } = capture('npm', ['ci', '--no-audit', '--no-fund'], { cwd: bench })
  if (!ok) fail(output)
}
for (const args of [
  [process.execPath, 'scripts/build.mjs'],
  ['tsc', '-p', 'bench/tsconfig.json'],
]) {
  const { ok, output } = capture(args[0], args.slice(1)) // nothing on the output but the results
  if (!ok) fail(output)
}
run(process.execPath, ['--enable-source-maps', join(bench, 'build', 'main.js'), ...process.argv.slice(2)])

/** npm keeps its own copy of the lockfile that it installed. */
function isInstalled() {
  const hidden = join(bench, 'node_modules', '.package-lock.json')
  if (!existsSync(hidden)) return false
  const wanted = JSON.parse(readFileSync(join(bench, 'package-lock.json'), 'utf8')).packages
  const there = JSON.parse(readFileSync(hidden, 'utf8')).packages
  return Object.entries(wanted).every(
    ([path, { version, optional }]) => path === '' || optional || there[path]?.version === version,
  )
}

// npm run check: what needs no Redis.
import { capture, since } from './run.mjs'

const node = process.execPath
const checks = [
  ['lint and format', 'biome', 'check', '--error-on-warnings'],
  ['types of src, and build', node, 'scripts/build.mjs'],
  ["types of the dashboard's page", 'tsc', '-p', 'ui/tsconfig.json'],
  ['types of tests and examples', 'tsc', '-p', 'tsconfig.test.json'],
  ["types of client.locks, beside the DOM's", 'tsc', '-p', 'test/types/dom'],
  [
    'no unused files, exports or dependencies',
    'knip',
    '--no-progress',
    '--treat-config-hints-as-errors',
    '--no-gitignore',
  ],
  ['imports go down, errors are documented', node, '--test', 'build/test/unit/house.test.js'],
  ['package', node, 'scripts/build/check-package.mjs'],
]

let failed = 0
for (const [title, command, ...args] of checks) {
  const start = performance.now()
  const { ok, output } = capture(command, args)
  console.log(`${ok ? 'OK  ' : 'FAIL'} ${title} (${since(start)})`)
  if (!ok) console.log(`${output}\n`)
  if (!ok) failed += 1
}
console.log(`${checks.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0

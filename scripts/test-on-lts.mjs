// npm run test:lts -- […as for npm test]: the tests on the newest LTS line of Node, fetched into .cache.
import { join } from 'node:path'
import { capture, fail, root, run } from './run.mjs'

const LTS = '26'

const home = join(root, '.cache', 'node-lts')
const node = join(home, 'node_modules', 'node', 'bin', 'node')

if (!nodeVersion().startsWith(`v${LTS}.`)) {
  console.log(`Fetching Node ${LTS} into .cache/node-lts …`)
  const install = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', home, `node@${LTS}`]
  const { output } = capture('npm', install)
  if (!nodeVersion().startsWith(`v${LTS}.`)) fail(`${output}\n\nnpm (its words are above) did not bring Node ${LTS}`)
}

console.log(`Node ${nodeVersion()}`)
run(node, ['scripts/test.mjs', ...process.argv.slice(2)])

/** "v26.1.0", or "" when it is not there. */
function nodeVersion() {
  return capture(node, ['-p', 'process.version']).stdout?.trim() ?? ''
}

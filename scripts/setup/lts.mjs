// The newest LTS line of Node, fetched into .cache.
import { join } from 'node:path'
import { capture, fail, root } from '../run.mjs'

const LTS = '26'

const home = join(root, '.cache', 'node-lts')
const node = join(home, 'node_modules', 'node', 'bin', 'node')

/** Its path; fetched when it is not there yet, and this is another one. */
export function ltsNode() {
  if (process.version.startsWith(`v${LTS}.`)) return process.execPath
  if (!version().startsWith(`v${LTS}.`)) {
    console.log(`Fetching Node ${LTS} into .cache/node-lts …`)
    const install = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', home, `node@${LTS}`]
    const { output } = capture('npm', install)
    if (!version().startsWith(`v${LTS}.`)) fail(`${output}\n\nnpm (its words are above) did not bring Node ${LTS}`)
  }
  console.log(`Node ${version()}`)
  return node
}

/** "v26.1.0", or "" when it is not there. */
function version() {
  return capture(node, ['-p', 'process.version']).stdout?.trim() ?? ''
}

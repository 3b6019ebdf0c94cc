// npm run verify -- <name> [--lts] [its options]
// Runs the programs that take longer than tests may: --help lists them. --lts: on the newest LTS line of Node, on which
// tests and simulated lives take a quarter to half less time than on Node 20.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { wrongOption } from './help.mjs'
import { root, run } from './run.mjs'
import { ltsNode } from './setup/lts.mjs'

const folder = join(root, 'scripts', 'verify')
const names = readdirSync(folder).map((file) => file.replace('.mjs', ''))
const [name, ...args] = process.argv.slice(2)
if (name === undefined || name === '--help' || name === '-h') {
  console.log(helpOf())
  process.exit(name === undefined ? 2 : 0)
}
if (!names.includes(name)) wrongOption(`No program ${name}: there are ${names.join(', ')}`)
const node = args.includes('--lts') ? ltsNode() : process.execPath
run(node, [`scripts/verify/${name}.mjs`, ...args.filter((arg) => arg !== '--lts')])

function helpOf() {
  const width = Math.max(...names.map(({ length }) => length))
  return `npm run verify -- <name> [options]

What takes longer than tests may. Each has a --help of its own: what it does, how long it takes, its options and exit codes.

${names.map((one) => `  ${one.padEnd(width)}  ${titleOf(one)}`).join('\n')}

  --lts  on the newest LTS line of Node`
}

/** The first line of a program says what it does. */
function titleOf(one) {
  return readFileSync(join(folder, `${one}.mjs`), 'utf8')
    .split('\n')[0]
    .replace('// ', '')
}

// npm run verify -- <chaos|consumers|engines|failover|fleet|interop|mutants|simulate> [--lts] [its options]
// Runs the programs that take longer than tests may: each says at its top what it does. --lts: on the newest LTS line of
// Node, on which tests and simulated lives take a quarter to half less time than on Node 20.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run } from './run.mjs'
import { ltsNode } from './setup/lts.mjs'

const [name, ...args] = process.argv.slice(2)
const names = readdirSync(join(root, 'scripts', 'verify')).map((file) => file.replace('.mjs', ''))
if (!names.includes(name)) fail(`npm run verify -- <${names.join('|')}> [--lts] [its options]`)
const node = args.includes('--lts') ? ltsNode() : process.execPath
run(node, [`scripts/verify/${name}.mjs`, ...args.filter((arg) => arg !== '--lts')])

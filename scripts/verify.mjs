// npm run verify -- <chaos|consumers|engines|failover|fleet|interop|mutants|simulate> [its options]
// What takes longer than tests may: each program says at its top what it does.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, run } from './run.mjs'

const [name, ...args] = process.argv.slice(2)
const names = readdirSync(join(root, 'scripts', 'verify')).map((file) => file.replace('.mjs', ''))
if (!names.includes(name)) fail(`npm run verify -- <${names.join('|')}> [its options]`)
run(process.execPath, [`scripts/verify/${name}.mjs`, ...args])

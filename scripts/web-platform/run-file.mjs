// Runs one file of web-platform-tests, and reports each test to the process that started this one.
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { runInThisContext } from 'node:vm'
import { becomeAgent, runScript } from './agent.mjs'
import { scriptsOf } from './files.mjs'
import { Harness } from './testharness.mjs'

const [file, folder, given] = process.argv.slice(2)
const options = given && JSON.parse(given)
const report = (name, error) =>
  process.send({ name, why: error === undefined ? undefined : String(error?.stack ?? error) })
const harness = new Harness(report)
process.on('unhandledRejection', (error) => {
  if (!harness.allowsUncaught) report('a promise rejects and nobody notices', error ?? 'unknown')
})

const close = await becomeAgent({ folder, options })
Object.assign(globalThis, harness.globals, { location: { pathname: `/web-locks/${basename(file)}`, href: file } })
const text = readFileSync(file, 'utf8')
for (const script of scriptsOf(text)) runScript(script, file, folder)
runInThisContext(text, { filename: file })
await harness.finished()
await setImmediate() // what has rejected is reported by then
harness.allowsUncaught = true // closing rejects what the tests left waiting
await close()
process.send({ isOver: true }, () => process.exit())

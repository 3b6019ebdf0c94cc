// The public web-platform-tests of Web Locks, with client.locks in place of navigator.locks.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureDist } from '../build/fresh.mjs'
import { EXIT_CODES, readOptions, wrongOption } from '../help.mjs'
import { ensureRedis } from '../setup/redis.mjs'
import { compileTests } from '../test/compile.mjs'
import { filesOf } from '../web-platform/files.mjs'
import { TOPOLOGIES } from '../web-platform/topologies.mjs'

const HELP = `npm run verify -- web-locks DIR [options]

Runs the tests of Web Locks in DIR, the folder web-locks of a clone of https://github.com/web-platform-tests/wpt, with
client.locks of the built package in place of navigator.locks, and a Redis that it starts. It takes a minute.

  --topology single   single, sentinel or cluster
  --native            with navigator.locks of Node itself
  --match a           only files whose names contain this
  --no-build          with the package and the tests as they were built last
  --lts               on the newest LTS line of Node

${EXIT_CODES}`

const FILE_LIMIT_MS = 5 * 60_000

const [, , first = '--help'] = process.argv
const dir = first.startsWith('-') ? undefined : process.argv.splice(2, 1)[0]
const values = readOptions(HELP, {
  topology: { type: 'string', default: 'single' },
  native: { type: 'boolean', default: false },
  match: { type: 'string', default: '' },
  'no-build': { type: 'boolean', default: false },
})
const { topology, native, match } = values
if (dir === undefined || !existsSync(dir)) wrongOption('DIR has to be the folder of the tests')
if (!Object.hasOwn(TOPOLOGIES, topology)) {
  wrongOption(`No topology ${topology}: there are ${Object.keys(TOPOLOGIES).join(', ')}`)
}
const folder = resolve(dir)

const all = filesOf(folder).filter(({ name }) => name.includes(match))
const files = all.filter(({ lacks }) => lacks === undefined)
const place = native ? undefined : await start()
const counts = { passed: 0, failed: 0 }
try {
  for (const one of files) await runFile(one)
} finally {
  await place?.stop()
}
for (const { name, lacks } of all) if (lacks !== undefined) console.log(`left out: ${name} ${lacks}`)
console.log(`${counts.passed} passed, ${counts.failed} failed`)
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1

/** Several servers are those of the tests. */
async function start() {
  ensureRedis(['redis-server'])
  if (!values['no-build']) (topology === 'single' ? ensureDist : compileTests)()
  return await TOPOLOGIES[topology]()
}

async function runFile({ name, file }) {
  const runner = fileURLToPath(new URL('../web-platform/run-file.mjs', import.meta.url))
  const child = fork(runner, [file, folder, ...(place ? [JSON.stringify(place.options)] : [])])
  const timer = globalThis.setTimeout(() => child.kill('SIGKILL'), FILE_LIMIT_MS)
  let isOver = false
  child.on('message', ({ name: test, why, isOver: isLast }) => {
    if (isLast) isOver = true
    else count(name, test, why)
  })
  const [code, signal] = await once(child, 'close')
  clearTimeout(timer)
  if (!isOver) count(name, 'the file', `ended with ${signal ?? code}`)
}

function count(file, test, why) {
  counts[why === undefined ? 'passed' : 'failed']++
  if (why !== undefined) console.log(`FAILED ${file}: ${test}\n  ${why.replaceAll('\n', '\n  ')}`)
}

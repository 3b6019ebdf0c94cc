// The public web-platform-tests of Web Locks, with client.locks in place of navigator.locks.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { EXIT_CODES, readOptions, wrongOption } from '../help.mjs'
import { ensureRedis } from '../setup/redis.mjs'
import { startRedis } from '../setup/start-redis.mjs'
import { filesOf } from '../web-platform/files.mjs'

const HELP = `npm run verify -- web-locks DIR [options]

Runs the tests of Web Locks in DIR, the folder web-locks of a clone of https://github.com/web-platform-tests/wpt, with
client.locks of the built package in place of navigator.locks, and a Redis that it starts. It takes a minute.

  --native    with navigator.locks of Node itself
  --match a   only files whose names contain this
  --lts       on the newest LTS line of Node

${EXIT_CODES}`

const FILE_LIMIT_MS = 5 * 60_000

const [, , first = '--help'] = process.argv
const dir = first.startsWith('-') ? undefined : process.argv.splice(2, 1)[0]
const { native, match } = readOptions(HELP, {
  native: { type: 'boolean', default: false },
  match: { type: 'string', default: '' },
})
if (dir === undefined || !existsSync(dir)) wrongOption('DIR has to be the folder of the tests')
const folder = resolve(dir)

const all = filesOf(folder).filter(({ name }) => name.includes(match))
const files = all.filter(({ lacks }) => lacks === undefined)
if (!native) ensureRedis(['redis-server'])
const server = native ? undefined : await startRedis()
const counts = { passed: 0, failed: 0 }
try {
  for (const one of files) await runFile(one)
} finally {
  server?.child.kill()
}
for (const { name, lacks } of all) if (lacks !== undefined) console.log(`left out: ${name} ${lacks}`)
console.log(`${counts.passed} passed, ${counts.failed} failed`)
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1

async function runFile({ name, file }) {
  const runner = fileURLToPath(new URL('../web-platform/run-file.mjs', import.meta.url))
  const child = fork(runner, [file, folder, ...(server ? [server.url] : [])])
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

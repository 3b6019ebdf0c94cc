// A virtual machine may be paused for seconds, and its clock set: leases end, and tests fail that are right. Files that failed
// while that happened, and no others, run once more.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { root } from '../run.mjs'
import { machineTimeMs } from './file.mjs'

const TICK_MS = 50
/** An idle process that gets no turn for that long on a busy machine would be a stall as well. */
const STALL_MS = 1_000

/**
 * Runs test files, and says whether they passed.
 *
 * @param runOnce `(files, env) => Promise<boolean>`; test-file.mjs must be loaded into the process of each file
 */
export async function runTestFiles(files, runOnce) {
  const folder = mkdtempSync(join(tmpdir(), 'tests-'))
  const record = join(folder, 'files.jsonl')
  const stalls = watchStalls()
  try {
    if (await runOnce(files, { TEST_FILES_RECORD: record })) return true
    const runs = readRuns(record)
    const failed = files.filter((file) => !runs.get(file)?.ok)
    for (const { at, ms } of stalls) console.error(`The machine stood still for ${ms} ms, ${secondsSince(at)} s ago`)
    // One that crashed or was given up has left no record: that is no stall.
    if (failed.length === 0 || !failed.every((file) => stalls.some((stall) => isDuring(stall, runs.get(file)))))
      return false
    console.error(`Once more, as the machine stood still while they failed: ${failed.join(', ')}`)
    return await runOnce(failed, {})
  } finally {
    stalls.end()
    rmSync(folder, { recursive: true })
  }
}

function watchStalls() {
  const stalls = []
  let [last, lastDate] = [machineTimeMs(), Date.now()]
  const timer = setInterval(() => {
    const [at, date] = [machineTimeMs(), Date.now()]
    const ms = Math.max(at - last, Math.abs(date - lastDate))
    if (ms > STALL_MS) stalls.push({ at, ms })
    last = at
    lastDate = date
  }, TICK_MS)
  return Object.assign(stalls, { end: () => clearInterval(timer) })
}

/** The runs that ended, by file. */
function readRuns(record) {
  const lines = existsSync(record) ? readFileSync(record, 'utf8').trim().split('\n') : []
  return new Map(lines.map((line) => JSON.parse(line)).map((run) => [relative(root, run.file), run]))
}

function isDuring({ at, ms }, run) {
  return run !== undefined && at >= run.began && at - ms <= run.ended
}

function secondsSince(at) {
  return Math.round((machineTimeMs() - at) / 1_000)
}

// The slowest tests of a run, with their suites and the file that they are written in.
import { relative } from 'node:path'
import { root } from '../run.mjs'

const SHOWN = 5
const ENDS = ['test:pass', 'test:fail']

export default async function* (events) {
  const suites = []
  const tests = []
  for await (const { type, data } of events) {
    // Each file's tests are reported in the order in which they are written, however they ran.
    if (type === 'test:start') suites.splice(data.nesting, suites.length, data.name)
    if (!ENDS.includes(type) || data.details.type === 'suite') continue
    const title = [...suites.slice(0, data.nesting), data.name].join(' › ')
    tests.push({ ms: data.details.duration_ms, title, file: relative(root, data.file ?? '') })
  }
  tests.sort((a, b) => b.ms - a.ms)
  for (const { ms, title, file } of tests.slice(0, SHOWN)) {
    yield `${(ms / 1000).toFixed(1).padStart(6)} s  ${file}: ${title}\n`
  }
}

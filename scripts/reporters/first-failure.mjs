// A reporter for node:test that prints the names of the tests that fail, and ends the process at the first one that is not in
// KNOWN_FAILURES: one is enough for scripts/verify/mutants.mjs. Without KNOWN_FAILURES it continues. At the end it prints
// "finished".
import { writeSync } from 'node:fs'

const known = process.env.KNOWN_FAILURES && JSON.parse(process.env.KNOWN_FAILURES)

export default async function* report(events) {
  for await (const { type, data } of events) {
    // The failure of a suite only repeats that of one of its tests.
    if (type !== 'test:fail' || data.todo || data.details.error.failureType === 'subtestsFailed') continue
    if (known?.includes(data.name)) continue
    writeSync(1, `\nfailed: ${data.name}\n`)
    if (known) process.exit(1)
  }
  yield '\nfinished\n'
}

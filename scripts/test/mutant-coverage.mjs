// Loaded into every process and thread that runs a test for scripts/verify/mutants.mjs: notes which mutants the test reaches.
import { writeFileSync } from 'node:fs'
import { threadId } from 'node:worker_threads'

const hits = {}
const note = () => writeFileSync(`${process.env.MUTANT_COVERAGE}-${process.pid}-${threadId}`, JSON.stringify(hits))

// Where the code that @stryker-mutator/instrumenter writes counts.
globalThis.__stryker__ = { mutantCoverage: { static: hits, perTest: {} } }
process.on('exit', note)
setInterval(note, 200).unref() // a thread that is terminated has no exit event

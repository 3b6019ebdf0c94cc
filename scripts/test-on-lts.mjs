// npm run test:lts -- […as for npm test]: the tests on the newest LTS line of Node.
import { ltsNode } from './lts.mjs'
import { run } from './run.mjs'

run(ltsNode(), ['scripts/test.mjs', ...process.argv.slice(2)])

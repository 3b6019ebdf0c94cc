// npm run test:lts -- […as for npm test]: the tests on the newest LTS line of Node.

import { run } from '../run.mjs'
import { ltsNode } from '../setup/lts.mjs'

run(ltsNode(), ['scripts/test.mjs', ...process.argv.slice(2)])

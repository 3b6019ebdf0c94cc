import { delimiter } from 'node:path'

/** Without what npm and the test runner set for this process, and without the programs of this repository. */
export function withoutRepository(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const rest = Object.fromEntries(Object.entries(env).filter(([name]) => !/^(npm_|NODE_)/i.test(name)))
  const path = (rest['PATH'] ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules'))
  return { ...rest, PATH: path.join(delimiter) }
}

// The version of the package. In the program as one file, scripts/build/standalone.mjs puts the version itself here.
import { readFileSync } from 'node:fs'

export function version(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(file) as { version: string }).version
}

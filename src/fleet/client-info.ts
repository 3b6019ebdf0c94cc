// The application, host and process of this client.
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { ClientInfo } from './lock-info.js'

/** The checked option `inspection` of a client that can be asked. */
export interface Inspection {
  /** Default: the name of the application's package. */
  readonly name: string | undefined
  /** Default: that of the machine; false: it is left out. */
  readonly host: string | false | undefined
  /** Whether every hold keeps the stack of the call that took it. */
  readonly stacks: boolean
}

interface Application {
  readonly name: string
  readonly version: string
}

let application: Application | undefined

/** How a client of this process describes itself. */
export function clientInfo(id: string, { name, host = hostname() }: Inspection): ClientInfo {
  application ??= applicationOf(process.env, process.argv[1])
  return { ...application, ...(name !== undefined && { name }), id, host: host || '', pid: process.pid }
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

function packageIn(folder: string): Application | undefined {
  try {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
    if (typeof name !== 'string') return undefined
    return { name, version: typeof version === 'string' ? version : '' }
  } catch {
    return undefined
  }
}

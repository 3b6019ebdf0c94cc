// The options of holdfast ui.
import { isLoopback } from '../../dashboard/serve.js'
import { parseCommandLine } from '../command-line.js'
import { UsageError } from '../exit-codes.js'
import { type Target, targetOf } from '../target.js'

export interface UiOptions {
  target: Target
  host: string
  /** 0: any free one. */
  port: number
  readOnly: boolean
  /** Names under which it may be requested besides its address. */
  hosts: string[]
  /** Whether to open a browser, if there is one. */
  isOpened: boolean
  /** The token that Prometheus sends to read the metrics. */
  metricsToken: string | undefined
}

const OPTIONS = {
  redis: { type: 'string' },
  config: { type: 'string' },
  port: { type: 'string', default: '0' },
  host: { type: 'string', default: '127.0.0.1' },
  'read-only': { type: 'boolean', default: false },
  'allow-unlock': { type: 'boolean', default: false },
  'allow-host': { type: 'string', multiple: true },
  'no-open': { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/**
 * @returns undefined if help was asked for
 * @throws {UsageError} it is invalid
 */
export function parseUiOptions(args: string[], env: NodeJS.ProcessEnv): UiOptions | undefined {
  const { values } = parseCommandLine({ args, options: OPTIONS })
  if (values.help) return undefined
  if (values['read-only'] && values['allow-unlock']) {
    throw new UsageError('--read-only and --allow-unlock exclude each other')
  }
  return {
    target: targetOf(values, env),
    host: values.host,
    port: portOf(values.port),
    readOnly: values['read-only'] || (!isLoopback(values.host) && !values['allow-unlock']),
    hosts: (values['allow-host'] ?? []).map(checkHost),
    isOpened: !values['no-open'],
    metricsToken: metricsTokenOf(env),
  }
}

function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new UsageError(`--port: expected 0 to 65535, not ${JSON.stringify(text)}`)
}

/** From the environment: other users can see the command line of a process. */
function metricsTokenOf({ HOLDFAST_METRICS_TOKEN: token }: NodeJS.ProcessEnv): string | undefined {
  if (!token || /^[\w-]{22,100}$/.test(token)) return token || undefined
  throw new UsageError(
    'HOLDFAST_METRICS_TOKEN: expected 22 to 100 letters, digits, - and _, such as openssl rand -hex 16',
  )
}

function checkHost(name: string): string {
  if (/^([\w.-]+|\[[\da-f:.]+\])$/i.test(name)) return name
  throw new UsageError(`--allow-host: expected a name such as locks.example.com, not ${JSON.stringify(name)}`)
}

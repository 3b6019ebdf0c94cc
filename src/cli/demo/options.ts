// The options of holdfast demo.
import { checkRedisUrl } from '../../config/redis-url.js'
import { messageOf } from '../../errors.js'
import { parseCommandLine } from '../command-line.js'
import { UsageError } from '../exit-codes.js'

export interface DemoOptions {
  processes: number
  stock: number
  json: boolean
  help: boolean
  redisUrl: string | undefined
  /** A Redis in memory instead of a real one. */
  isEmbedded: boolean
}

const OPTIONS = {
  processes: { type: 'string', default: '4' },
  stock: { type: 'string', default: '300' },
  redis: { type: 'string' },
  embedded: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** @throws {UsageError} an option is unknown or its value is invalid */
export function readDemoOptions(args: string[], env: NodeJS.ProcessEnv): DemoOptions {
  const { values } = parseCommandLine({ args, options: OPTIONS })
  if (values.embedded && values.redis !== undefined) throw new UsageError('--embedded and --redis exclude each other')
  return {
    isEmbedded: values.embedded,
    processes: integer('--processes', values.processes, 32),
    stock: integer('--stock', values.stock, 10_000),
    json: values.json,
    help: values.help,
    redisUrl: redisUrl(values.redis, env),
  }
}

function integer(option: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= 1 && value <= max) return value
  throw new UsageError(`${option}: expected a whole number from 1 to ${max}, not ${JSON.stringify(text)}`)
}

/** The message leaves out the URL, which may contain a password. */
function redisUrl(option: string | undefined, { REDIS_URL }: NodeJS.ProcessEnv): string | undefined {
  const text = option ?? (REDIS_URL || undefined)
  if (text === undefined) return undefined
  try {
    return checkRedisUrl(text, option === undefined ? 'REDIS_URL' : '--redis')
  } catch (error) {
    throw new UsageError(messageOf(error))
  }
}

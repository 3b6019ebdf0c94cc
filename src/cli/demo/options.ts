import { parseArgs } from 'node:util'
import { checkRedisUrl } from '../../config/redis-url.js'
import { messageOf } from '../../errors.js'
import { UsageError } from '../exit-codes.js'
import { withoutUrls } from '../stderr.js'

export interface DemoOptions {
  processes: number
  stock: number
  json: boolean
  help: boolean
  redisUrl: string | undefined
}

export const DEMO_USAGE = `Usage: holdfast demo [options]

A flash sale: several processes sell the same limited stock, first without a lock, then with one. The first sells more
than there is, the second never does. Takes a few seconds.

  --processes N   how many processes sell, 1 to 32 (default 4); each serves 4 buyers at a time
  --stock N       how many units there are, 1 to 10000 (default 300)
  --redis URL     which Redis to use (default $REDIS_URL; without it the demo starts a private redis-server and ends it
                  again). The demo's keys begin with holdfast:demo: and are deleted at the end
  --json          print the result as one line of JSON on stdout, and all else on stderr
  -h, --help      print this

Exit code:
    0  nothing was oversold with the lock
    1  something was: please report it
   64  wrong usage
   69  there is no Redis, and none can be started`

/** @throws {UsageError} an option is unknown or its value cannot work */
export function readDemoOptions(args: string[], env: NodeJS.ProcessEnv): DemoOptions {
  const { values } = parse(args)
  return {
    processes: integer('--processes', values.processes, 32),
    stock: integer('--stock', values.stock, 10_000),
    json: values.json,
    help: values.help,
    redisUrl: redisUrl(values.redis, env),
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        processes: { type: 'string', default: '4' },
        stock: { type: 'string', default: '300' },
        redis: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
  } catch (error) {
    // It quotes what was typed, which may be a URL in the wrong place.
    throw new UsageError(withoutUrls(messageOf(error)))
  }
}

function integer(option: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= 1 && value <= max) return value
  throw new UsageError(`${option}: expected a whole number from 1 to ${max}, not ${JSON.stringify(text)}`)
}

/** The message leaves out the URL, which may have a password in it. */
function redisUrl(option: string | undefined, { REDIS_URL }: NodeJS.ProcessEnv): string | undefined {
  const text = option ?? (REDIS_URL || undefined)
  if (text === undefined) return undefined
  try {
    return checkRedisUrl(text, option === undefined ? 'REDIS_URL' : '--redis')
  } catch (error) {
    throw new UsageError(messageOf(error))
  }
}

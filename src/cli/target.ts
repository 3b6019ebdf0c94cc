// Finds Redis.
import { UsageError } from './exit-codes.js'

/** Where Redis is: a URL, or the path of a Redisson configuration. */
export type Target = { readonly url: string } | { readonly config: string }

/**
 * From the command line, else from the environment.
 * @throws {UsageError} both options are given
 */
export function targetOf(
  { redis, config }: { redis?: string | undefined; config?: string | undefined },
  { HOLDFAST_CONFIG, REDIS_URL }: NodeJS.ProcessEnv,
): Target {
  if (redis !== undefined && config !== undefined) throw new UsageError('--redis and --config cannot be combined')
  if (config !== undefined) return { config }
  if (redis !== undefined) return { url: redis }
  return HOLDFAST_CONFIG ? { config: HOLDFAST_CONFIG } : { url: REDIS_URL || 'redis://127.0.0.1:6379' }
}

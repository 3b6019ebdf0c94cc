import { UsageError } from './exit-codes.js'

/** Where Redis is: a URL, or the path of a Redisson configuration. */
export type Target = { readonly url: string } | { readonly config: string }

/**
 * What the command line says of it, else the environment.
 * @throws {UsageError} both are given
 */
export function targetOf(
  { redis, config }: { redis?: string | undefined; config?: string | undefined },
  { HOLDFAST_CONFIG, REDIS_URL }: NodeJS.ProcessEnv,
): Target {
  if (redis !== undefined && config !== undefined) throw new UsageError('either --redis or --config')
  if (config !== undefined) return { config }
  if (redis !== undefined) return { url: redis }
  return HOLDFAST_CONFIG ? { config: HOLDFAST_CONFIG } : { url: REDIS_URL || 'redis://127.0.0.1:6379' }
}

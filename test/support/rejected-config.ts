import assert from 'node:assert/strict'
import { describe } from '../../src/config/deployment.js'
import { loadConfig } from '../../src/config/load.js'
import type { RedissonConfig } from '../../src/config/schema.js'
import type { ConfigError } from '../../src/index.js'

/** A password that no message may contain. */
export const SECRET = 'hunter2'

/** @param expected  properties of the error, or a RegExp for one */
export async function expectRejected(
  source: RedissonConfig | string | object,
  expected: Partial<ConfigError>,
): Promise<void> {
  const error = await Promise.resolve()
    .then(async () =>
      describe(typeof source === 'string' ? await loadConfig(source, { env: {} }) : (source as RedissonConfig)),
    )
    .then(
      () => assert.fail(`accepted: ${JSON.stringify(source)}`),
      (error: ConfigError) => error,
    )
  assert.equal(error.code, 'LOCK_CONFIG', error.stack)
  for (const [key, value] of Object.entries(expected)) {
    const found = error[key as keyof ConfigError]
    if (value instanceof RegExp) assert.match(String(found), value)
    else assert.deepEqual(found, value, error.message)
  }
  assert(!JSON.stringify([error.message, error.stack, String(error.cause), { ...error }]).includes(SECRET))
}

export function singleServer(keys: object = {}, top: object = {}): object {
  return { singleServerConfig: { address: 'redis://127.0.0.1:6379', ...keys }, ...top }
}

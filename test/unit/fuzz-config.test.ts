/** Configurations, URLs and command lines of any kind: they are read, or refused with an error that shows no secret. */
import assert from 'node:assert/strict'
import { it, describe as suite } from 'node:test'
import fc from 'fast-check'
import { readDemoOptions } from '../../src/cli/demo/options.js'
import { parseDoctorOptions } from '../../src/cli/doctor/options.js'
import { UsageError } from '../../src/cli/exit-codes.js'
import { parseRunOptions } from '../../src/cli/run/options.js'
import { describe } from '../../src/config/deployment.js'
import { checkRedisUrl } from '../../src/config/redis-url.js'
import { KEYS, type RedissonConfig } from '../../src/config/schema.js'
import { parseYaml } from '../../src/config/yaml.js'
import { ConfigError } from '../../src/index.js'
import { fuzz } from '../support/fuzz.js'

const SECRET = 'sesame-7Yq'

const value = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<unknown>(0, 1, -1, 1.5, 5_000, '', 'x', '10', true, 'true', null, [], {}) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>('redis://a:1', ['redis://a:1', 'redis://b:2'], `redis://u:${SECRET}@a:1`),
  },
  { weight: 1, arbitrary: fc.anything() },
)
const sections = Object.keys(KEYS).filter((name) => name !== '')
const section = (name: string): fc.Arbitrary<unknown> =>
  fc.dictionary(fc.constantFrom(...Object.keys(KEYS[name] ?? {}), 'unknown'), value, { maxKeys: 5 })
const config = fc.oneof(
  fc.anything(),
  fc
    .tuple(
      fc.dictionary(fc.constantFrom(...Object.keys(KEYS[''] ?? {})), value, { maxKeys: 4 }),
      fc.constantFrom(...sections).chain((name) => section(name).map((content) => ({ [name]: content }))),
    )
    .map(([top, one]) => ({ ...top, ...one })),
)

/** Runs a check of input. @returns whether it was refused, as it should be if it is wrong */
async function isRefused(check: () => unknown, type: new (...args: never[]) => Error): Promise<boolean> {
  try {
    await check()
    return false
  } catch (error) {
    assert(error instanceof type, `${String(error)} is no ${type.name}\n${(error as Error)?.stack}`)
    assert(!error.message.includes(SECRET), error.message)
    return true
  }
}

suite('a URL with a password in the place of something else', () => {
  for (const password of [SECRET, `a/${SECRET}`, `${SECRET}@`, `a:/\n${SECRET}`]) {
    it(`a password in the wrong place of a URL is in no error: ${JSON.stringify(password)}`, async () => {
      const url = `redis://u:${password}@host:1`
      const error = new ConfigError('timeout', url, 'a whole number')
      assert.equal(error.message, 'timeout: expected a whole number')
      assert.equal(error.value, undefined)
      assert(
        await isRefused(
          () => describe({ singleServerConfig: { timeout: url } } as unknown as RedissonConfig),
          ConfigError,
        ),
      )
      const words = ['--at-least', url.replace('\n', ''), 'lock', 'true']
      assert(await isRefused(() => parseRunOptions(words, {}), UsageError))
    })
  }
})

suite('any input', () => {
  it('any input as a configuration is read, or refused with its path', async () => {
    await fuzz(config, async (any) => void (await isRefused(() => describe(any as RedissonConfig), ConfigError)))
  })

  it('any input as YAML is read, or refused', async () => {
    const text = fc.oneof(fc.string(), fc.json(), fc.constantFrom('a: b: c', '- [', '!!js/function x', '&a [*a]', '\t'))
    await fuzz(text, async (any) => void (await isRefused(() => parseYaml(any), ConfigError)))
  })

  it('any input as a URL is accepted, or refused without its password', async () => {
    const part = fc.oneof(
      fc.webUrl(),
      fc.string(),
      fc.constantFrom('host:1', '[::1]:6379/0', 'a:b@c', '//', '?', 'h/x'),
    )
    const url = fc.tuple(fc.constantFrom('redis://', 'rediss://', 'http://', '', `redis://u:${SECRET}@`), part)
    await fuzz(url, async ([scheme, rest]) => {
      await isRefused(() => checkRedisUrl(scheme + rest, 'url'), ConfigError)
    })
    await fuzz(fc.anything(), async (any) => void (await isRefused(() => checkRedisUrl(any, 'url'), ConfigError)))
  })

  it('any input as a command line is run, or refused as wrong usage', async () => {
    const word = fc.oneof(
      fc.constantFrom(
        '--redis',
        '--json',
        '--help',
        '-h',
        '--',
        '--lease',
        '--wait',
        '--unknown',
        '--at-least',
        '--stock',
      ),
      fc.constantFrom(
        'lock',
        'node',
        '10s',
        '-1',
        '1e9',
        '',
        `redis://u:${SECRET}@a:1`,
        '--redis=redis://a:1',
        '--embedded',
      ),
      fc.string(),
    )
    await fuzz(fc.array(word, { maxLength: 6 }), async (words) => {
      for (const read of [parseRunOptions, parseDoctorOptions, readDemoOptions])
        await isRefused(() => read(words, {}), UsageError)
    })
  })
})

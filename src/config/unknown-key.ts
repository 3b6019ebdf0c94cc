// What a key may mean that Redisson does not have.
import { similarTo } from '../util/similar.js'

/** Keys of old files. */
const REMOVED = new Set([
  'codecProvider',
  'decodeInExecutor',
  'dnsMonitoring',
  'failedAttempts',
  'pingTimeout',
  'reconnectionTimeout',
  'redissonReferenceEnabled',
  'registrationKey',
  'resolverProvider',
  'slaveSubscriptionConnectionMinimumIdleSize',
  'slaveSubscriptionConnectionPoolSize',
  'useLinuxNativeEpoll',
])

/** Whether Redisson once had it. */
export function isRemoved(name: string): boolean {
  return REMOVED.has(name)
}

/** Files of frameworks, with Redisson's somewhere inside. The first of these keys that a file has is the nearest to it. */
const FRAMEWORKS: Readonly<Record<string, string>> = {
  redisson:
    'the keys below redisson at the top level, or the text of redisson.config in a file; Micronaut writes ' +
    'singleServerConfig as single-server-config, with hyphens in each key',
  quarkus: 'the keys below quarkus.redisson at the top level, without hyphens: singleServerConfig, connectTimeout',
  spring:
    'the configuration of Redisson itself: the file that spring.redis.redisson.file names, or the text below ' +
    'spring.redis.redisson.config; from spring.data.redis, singleServerConfig with address: "redis://host:port"',
}

/** The key by which a file is one of a framework: what is wrong with its other keys says less. */
export function frameworkKeyAmong(names: readonly string[]): string | undefined {
  const found = Object.keys(FRAMEWORKS).map((framework) => names.find((name) => name.split('.')[0] === framework))
  return found.find((name) => name !== undefined)
}

/**
 * @param at   the section that has the key; '' is the top level
 * @param all  the known keys by section
 * @returns what to write instead, as the end of a sentence
 */
export function adviceOn(
  name: string,
  at: string,
  value: unknown,
  all: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): string {
  const framework = at === '' ? FRAMEWORKS[name.split('.')[0] ?? ''] : undefined
  if (framework !== undefined) return framework
  if (name === 'elasticacheServersConfig') return 'its name since Redisson 2.13: replicatedServersConfig'
  const places = Object.keys(all).filter((place) => place !== at && Object.hasOwn(all[place] ?? {}, name))
  if (places.includes('')) return 'it at the top level of the configuration'
  if (places.length > 0) return `it in ${places.join(' or ')}`
  const sections = at === '' ? Object.keys(all).filter((section) => section !== '') : []
  const similar = similarTo(name.split('.')[0] ?? '', [...sections, ...Object.keys(all[at] ?? {})])
  if (similar !== undefined) return `a key that exists: ${similar}?`
  const isSection = at === '' && typeof value === 'object' && value !== null
  return isSection ? `a server section: ${sections.join(', ')}` : "one of the keys of Redisson's configuration"
}

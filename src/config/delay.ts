// Delays between attempts.
import { ConfigError } from '../errors.js'
import { backoffMs } from '../util/backoff.js'
import { systemRandom } from '../util/random.js'
import { type Check, isJava, isoDuration, javaClass, object } from './checks.js'

/** The delay before an attempt, ms. @param attempt  counted from 0 */
export type Delay = (attempt: number) => number

const PARAMETERS = {
  EqualJitterDelay: ['baseDelay', 'maxDelay'],
  FullJitterDelay: ['baseDelay', 'maxDelay'],
  DecorrelatedJitterDelay: ['baseDelay', 'maxDelay'],
  ConstantDelay: ['delay'],
}
type Strategy = keyof typeof PARAMETERS

const STRATEGIES = Object.keys(PARAMETERS) as Strategy[]
const DEFAULT_BASE_MS = 100
const DEFAULT_MAX_MS = 1_000

/** A delay strategy of Redisson: `!<org.redisson.config.EqualJitterDelay> {baseDelay: PT1S, maxDelay: PT2S}`. */
export const delayStrategy: Check<Readonly<Record<string, unknown>>> = (value, path) => {
  delayOf(value, path)
  return value as Record<string, unknown>
}

/** @throws {ConfigError} it is not a strategy of Redisson, or its parameters cannot work */
export function delayOf(value: unknown, path: string): Delay {
  const strategy = STRATEGIES.find((name) => isJava(value, name))
  if (!strategy) {
    const allowed = STRATEGIES.map((name) => `!<org.redisson.config.${name}>`).join(', ')
    throw new ConfigError(path, javaClass(value) ?? value, `a class tag: ${allowed}`)
  }
  const { class: _, ...parameters } = object(value, path)
  for (const name of Object.keys(parameters)) {
    if (!PARAMETERS[strategy].includes(name)) {
      throw new ConfigError(`${path}.${name}`, undefined, `one of the parameters ${PARAMETERS[strategy].join(', ')}`)
    }
  }
  const ms = (name: string, absent: number): number =>
    parameters[name] === undefined ? absent : isoDuration(parameters[name], `${path}.${name}`)
  if (strategy === 'ConstantDelay') return constantDelay(ms('delay', DEFAULT_BASE_MS))
  const [base, max] = [ms('baseDelay', DEFAULT_BASE_MS), ms('maxDelay', DEFAULT_MAX_MS)]
  if (base > max) throw new ConfigError(`${path}.maxDelay`, parameters['maxDelay'], 'at least baseDelay')
  const exponential: Delay = (attempt) => Math.min(base * 2 ** Math.min(attempt, 30), max)
  if (strategy === 'FullJitterDelay') return (attempt) => Math.random() * exponential(attempt)
  if (strategy === 'EqualJitterDelay') return equalJitter(base, max)
  let previous = base
  return (attempt) => {
    if (attempt === 0) previous = base
    previous = Math.min(max, base + Math.random() * 3 * previous)
    return previous
  }
}

export function constantDelay(ms: number): Delay {
  return () => ms
}

export function equalJitter(base: number, max: number): Delay {
  return (attempt) => backoffMs(attempt, base, max, systemRandom)
}

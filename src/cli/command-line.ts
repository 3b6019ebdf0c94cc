// Reads options.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { messageOf } from '../errors.js'
import { similarTo } from '../util/similar.js'
import { UsageError } from './exit-codes.js'

/**
 * As `parseArgs` of Node.
 * @throws {UsageError} an option is unknown or lacks its value, or there are too many arguments
 */
export function parseCommandLine<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on positional arguments that does not apply here.
    const [problem = ''] = messageOf(error).split(/\. |\.?\n/)
    const option = /^Unknown option '--(.*)'$/.exec(problem)?.[1] ?? ''
    const advice = option === '' ? '' : didYouMean(option, Object.keys(config.options ?? {}), '--')
    throw new UsageError(problem.replace('argument is ambiguous', 'needs a value') + advice)
  }
}

/** @returns the end of a message about an unknown name; empty if none of the known ones is similar */
export function didYouMean(name: string, known: readonly string[], before = ''): string {
  const similar = similarTo(name, known)
  return similar === undefined ? '' : `: did you mean ${before}${similar}?`
}

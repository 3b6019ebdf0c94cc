// `holdfast doctor`: runs the checks and prints them.
import { placeOf } from '../../config/redis-url.js'
import { aclRule } from '../../doctor/acl.js'
import { type Result, resultOf } from '../../doctor/check.js'
import { REACHABLE } from '../../doctor/checks/connection.js'
import { problem } from '../../doctor/finding.js'
import { runChecks } from '../../doctor/run-checks.js'
import { DeploymentUnderTest, type Target } from '../../doctor/target.js'
import { ConfigError } from '../../errors.js'
import { visible } from '../../util/visible.js'
import { EXIT, Failure, UsageError } from '../exit-codes.js'
import { reasonOf } from '../stderr.js'
import { Terminal } from '../terminal.js'
import { DOCTOR_USAGE } from '../usage.js'
import { type DoctorOptions, parseDoctorOptions } from './options.js'
import { jsonOf, reportOf, summaryOf } from './report.js'

/**
 * `holdfast doctor`: reports what is wrong with a deployment for locks, and how to fix it.
 * @param args  the command line after the word `doctor`
 * @returns the exit code
 * @throws {UsageError} the command line or the configuration is invalid
 */
export async function doctor(args: string[]): Promise<number> {
  const options = parseDoctorOptions(args, process.env)
  if (!options) return await print(DOCTOR_USAGE, 0)
  if (options.acl) return await print(visible(await ruleOf(options)), 0)
  const results = await resultsOf(options)
  const isUnreachable = results[0]?.id === REACHABLE.id && results[0].status === 'problem'
  const exitCode = isUnreachable ? EXIT.unavailable : results.some(({ status }) => status === 'problem') ? 1 : 0
  if (options.json) return await print(jsonOf(results), exitCode)
  const terminal = new Terminal(process.stdout, process.env)
  const lines = [...reportOf(results, terminal, options.isVerbose), summaryOf(results, terminal)]
  return await print(lines.join('\n'), exitCode)
}

/** The rule for the version of the server, or for the newest if no address was given. */
async function ruleOf(options: DoctorOptions): Promise<string> {
  const { target, isTargetGiven, user, prefix, role } = options
  if (!isTargetGiven) return aclRule(user, prefix, undefined, role)
  try {
    await using deployment = await open(options)
    const { compatible } = await deployment.servers[0].version()
    return aclRule(user, prefix, compatible, role)
  } catch (error) {
    if (error instanceof UsageError) throw error
    const { message } = unreachable(target, error)
    throw new Failure(EXIT.unavailable, `the rule depends on the version of the server. ${message}`)
  }
}

async function resultsOf(options: DoctorOptions): Promise<Result[]> {
  let deployment: DeploymentUnderTest
  try {
    deployment = await open(options)
  } catch (error) {
    if (error instanceof UsageError) throw error
    return [unreachable(options.target, error)]
  }
  await using opened = deployment
  return await runChecks(opened)
}

async function open({ target, prefix, role }: DoctorOptions): Promise<DeploymentUnderTest> {
  try {
    return await DeploymentUnderTest.open(target, prefix.replace(/\*$/, ''), role)
  } catch (error) {
    throw error instanceof ConfigError ? new UsageError(error.message) : error
  }
}

function unreachable(target: Target, error: unknown): Result {
  const place = 'url' in target ? placeOf(target.url) : target.config
  const reason = reasonOf(error)
  const fix = /WRONGPASS|NOAUTH|invalid (username|password)/i.test(reason)
    ? 'give the user and password: redis://user:password@host:port in REDIS_URL, or username and password in the file'
    : 'check that Redis is running, listens on that address (bind, protected-mode), and is not behind a firewall'
  return resultOf(REACHABLE, problem(`${place}: ${reason}`, fix))
}

/** Resolves once the text is written, so that the process may exit. */
async function print(text: string, exitCode: number): Promise<number> {
  process.stdout.on('error', () => {}) // the reader may leave before the end
  await new Promise<void>((resolve) => process.stdout.write(`${text}\n`, () => resolve()))
  return exitCode
}

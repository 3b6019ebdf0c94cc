// `holdfast ui`: serves the dashboard until it is interrupted.
import { placeOf } from '../../config/redis-url.js'
import { isLoopback, type ServedDashboard, serveDashboard } from '../../dashboard/serve.js'
import { messageOf } from '../../errors.js'
import { userAtHost } from '../../platform.js'
import { connectTo } from '../connect.js'
import { EXIT, Failure } from '../exit-codes.js'
import { say } from '../stderr.js'
import type { Target } from '../target.js'
import { UI_USAGE } from '../usage.js'
import { hasDesktop, openBrowser } from './browser.js'
import { parseUiOptions, type UiOptions } from './options.js'

/**
 * `holdfast ui`: serves the dashboard until a signal ends it.
 * @param args  the command line after the word `ui`
 * @returns the exit code
 * @throws {UsageError} the command line is invalid
 * @throws {Failure} Redis is unreachable, or the port is taken
 */
export async function ui(args: string[]): Promise<number> {
  const options = parseUiOptions(args, process.env)
  if (!options) {
    console.log(UI_USAGE)
    return 0
  }
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort(new Stopped()))
  try {
    await using client = await connectTo(options.target, stop.signal)
    const server = await serve(options, client)
    const closeBrowser = announce(server, options)
    await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
    closeBrowser()
    await server.close()
    return 0
  } catch (error) {
    if (error instanceof Stopped) return 0
    throw error
  }
}

/** The user has ended it. */
class Stopped extends Error {}

type Client = Awaited<ReturnType<typeof connectTo>>

async function serve({ target, ...options }: UiOptions, client: Client): Promise<ServedDashboard> {
  const { host, port } = options
  try {
    return await serveDashboard({ ...options, client, user: userAtHost(), title: titleOf(target) })
  } catch (error) {
    throw new Failure(EXIT.unavailable, `cannot listen on ${host}, port ${port}: ${messageOf(error)}`)
  }
}

/** @returns cleans up */
function announce({ url, token }: ServedDashboard, { host, readOnly, isOpened }: UiOptions): () => void {
  if (!isLoopback(host)) {
    say(`anybody on the network between here and the browser can read the token: ${host} is served without TLS`)
  }
  if (readOnly) say('read-only: no lock can be released by force')
  const full = `${url}#token=${token}`
  process.stdout.on('error', () => {}) // the reader may leave
  console.log(`${full}\nThe token is valid until this ends: Ctrl-C`)
  return isOpened && process.stdout.isTTY && hasDesktop(process.env) ? openBrowser(full) : () => {}
}

function titleOf(target: Target): string {
  return 'url' in target ? placeOf(target.url) : target.config
}

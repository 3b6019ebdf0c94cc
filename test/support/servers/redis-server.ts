import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { atProcessExit, tieToThisProcess } from '../processes/process-exit.js'
import { ADMIN, AS_ADMIN } from '../rights.js'
import { sleep } from '../wait-until.js'
import { IS_BEFORE_7 } from './engine.js'
import { freePort } from './free-port.js'

const START_MS = 15_000
const LOG_FILE = 'redis.log'
const CONFIG_FILE = 'redis.conf'

/**
 * A redis-server of our own on a free port, without persistence unless `args` request it. It ends with this process.
 * @param options.args   further command line arguments, such as `['--appendonly', 'yes']`
 * @param options.ports  arguments that each get a free port of their own, such as `['--tls-port']`: `server.ports` has them
 * @param options.config a configuration file: it is read before the arguments, and the server may rewrite it
 * @param options.through a command that runs the server, in its directory: the words before `redis-server`
 */
export async function startRedis(
  options: { args?: string[]; ports?: readonly string[]; config?: string; through?: readonly string[] } = {},
): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-redis-'))
  const { args = [], through = [] } = options
  try {
    writeFileSync(join(dir, CONFIG_FILE), `user ${ADMIN} on nopass ~* &* +@all\n${options.config ?? ''}`)
    for (let tries = 1; ; tries++) {
      const port = await freePort()
      const ports: Record<string, number> = {}
      for (const name of options.ports ?? []) ports[name] = await freePort()
      try {
        return new RedisServer(dir, port, args, await launch(dir, port, ports, args, through), ports, through)
      } catch (error) {
        if (!(error instanceof PortTakenError) || tries === 5) throw error
      }
    }
  } catch (error) {
    rmSync(dir, { recursive: true, force: true })
    throw error
  }
}

/** One real redis-server: stop it, kill it, freeze it, start it again; port and directory stay. */
export class RedisServer implements AsyncDisposable {
  readonly host = '127.0.0.1'
  readonly port: number
  readonly url: string
  /** The further ports that were requested of `startRedis`, by argument: `ports['--tls-port']`. */
  readonly ports: Readonly<Record<string, number>>
  /** A connection of the tests, to read raw keys. It reconnects; commands sent meanwhile wait. */
  readonly admin: Redis
  readonly #dir: string
  readonly #through: readonly string[]
  readonly #keepDirOnExit: () => void
  #args: string[]
  #process: ChildProcess
  #frozen = false

  constructor(
    dir: string,
    port: number,
    args: string[],
    process: ChildProcess,
    ports: Readonly<Record<string, number>> = {},
    through: readonly string[] = [],
  ) {
    this.#through = through
    this.ports = ports
    this.#dir = dir
    this.#args = args
    this.#process = process
    this.#keepDirOnExit = atProcessExit(() => rmSync(dir, { recursive: true, force: true }))
    this.port = port
    this.url = `redis://127.0.0.1:${port}`
    this.admin = new Redis({
      host: '127.0.0.1',
      port,
      lazyConnect: true,
      ...AS_ADMIN,
      connectionName: 'admin',
      maxRetriesPerRequest: null,
      retryStrategy: () => 20,
    })
    this.admin.on('error', () => {})
  }

  /** Process id of the present run. */
  get pid(): number {
    return pidOf(this.#process)
  }

  /** Whether it runs and is not frozen. */
  get isUp(): boolean {
    return !this.#frozen && !hasEnded(this.#process)
  }

  /** Stops the process where it stands (SIGSTOP): connections stay open, nothing has a reply. */
  freeze(): void {
    this.#frozen = true
    this.#process.kill('SIGSTOP')
  }

  /** Lets a frozen server continue (SIGCONT); it then executes what it received meanwhile. */
  thaw(): void {
    this.#frozen = false
    this.#process.kill('SIGCONT')
  }

  /** Ends the process with SIGKILL; resolved when it is gone. Killing twice is harmless. */
  async kill(): Promise<void> {
    await end(this.#process)
  }

  /**
   * Starts the server again on the same port and directory, killing it first if it still runs; resolved when it replies
   * PING with PONG, so not while it is still loading.
   * @param args replace those given to `startRedis`; absent: the same again
   */
  async restart(args: string[] = this.#args): Promise<void> {
    await this.kill()
    this.#args = args
    this.#process = await launch(this.#dir, this.port, this.ports, args, this.#through)
    this.#frozen = false
  }

  /** Connections of clients, as CLIENT LIST shows them: without the admin's, those of replicas and those of sentinels. */
  async connections(): Promise<string[]> {
    const lists = await Promise.all(['NORMAL', 'PUBSUB'].map((type) => this.admin.call('CLIENT', 'LIST', 'TYPE', type)))
    const lines = lists.flatMap((list) => String(list).trim().split('\n'))
    return lines.filter((line) => line !== '' && !/ name=(admin|sentinel-\S*) /.test(line))
  }

  /** Whether this is a replica of `master` in step with it: the link is up, and WAIT counts it. */
  async follows(master: RedisServer): Promise<boolean> {
    const [ours, theirs] = await Promise.all([this.admin.info('replication'), master.admin.info('replication')])
    return (
      ours.includes(`\r\nmaster_port:${master.port}\r\n`) &&
      ours.includes('\r\nmaster_link_status:up\r\n') &&
      new RegExp(`^slave\\d+:.*port=${this.port},state=online`, 'm').test(theirs)
    )
  }

  /** Ends the server and the admin connection, and removes the directory. Stopping twice is harmless. */
  async stop(): Promise<void> {
    this.admin.disconnect()
    await this.kill()
    this.#keepDirOnExit()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

class PortTakenError extends Error {}

async function launch(
  dir: string,
  port: number,
  ports: Readonly<Record<string, number>>,
  args: string[],
  through: readonly string[],
): Promise<ChildProcess> {
  const options = [CONFIG_FILE]
  options.push('--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--logfile', LOG_FILE)
  options.push(...Object.entries(ports).flatMap(([name, number]) => [name, String(number)]))
  options.push('--save', '', '--appendonly', 'no', ...(IS_BEFORE_7 ? [] : ['--enable-debug-command', 'yes']))
  options.push(...args)
  const [program, ...words] = [...through, 'redis-server', ...options] as [string, ...string[]]
  const child = spawn(program, words, { cwd: dir, stdio: 'ignore' })
  const failure = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    child.once('spawn', () => resolve(undefined)).once('error', resolve)
  })
  if (failure) {
    const advice =
      failure.code === 'ENOENT'
        ? 'redis-server is not installed: `node scripts/setup/redis.mjs` installs it'
        : 'redis-server did not start'
    throw new Error(advice, { cause: failure })
  }
  tieToThisProcess(child, dir)
  try {
    await answersItself(child, dir, port)
    return child
  } catch (error) {
    await end(child)
    throw error
  }
}

/** Waits until the server on `port` replies to PING and is `child`, not a stranger that had the port before. */
async function answersItself(child: ChildProcess, dir: string, port: number): Promise<void> {
  const endsAt = performance.now() + START_MS
  while (performance.now() < endsAt) {
    if (hasEnded(child)) {
      const log = readLog(dir)
      if (/bind: |Address already in use/.test(log)) throw new PortTakenError(`port ${port} is taken`)
      throw new Error(`redis-server ended with code ${child.exitCode}:\n${log}`)
    }
    const reply = await request(port, 'PING\r\nINFO server\r\n')
    const pid = /process_id:(\d+)/.exec(reply)?.[1]
    if (pid && Number(pid) !== child.pid) throw new PortTakenError(`port ${port} is taken`)
    if (pid && reply.startsWith('+PONG')) return
    await sleep(5)
  }
  throw new Error(`redis-server did not reply to PING within ${START_MS} ms:\n${readLog(dir)}`)
}

/** The reply of the server to `commands` (inline), as raw text; empty if nothing listens there. */
async function request(port: number, commands: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8').setTimeout(250)
  socket.on('timeout', () => socket.destroy())
  // After QUIT the server closes the connection: all replies have arrived by then.
  socket.end(`${commands}QUIT\r\n`)
  let reply = ''
  try {
    for await (const text of socket) reply += text
  } catch {
    // Refused or cut: not there yet.
  }
  return reply
}

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error('the process was never started')
  return child.pid
}

function readLog(dir: string): string {
  try {
    return readFileSync(join(dir, LOG_FILE), 'utf8').split('\n').slice(-15).join('\n')
  } catch {
    return '(no log)'
  }
}

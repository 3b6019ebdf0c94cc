// Starts a redis-server for the demo alone.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { EXIT, Failure } from '../exit-codes.js'

const NOT_INSTALLED = `redis-server is not installed or not on the PATH. Install it:
  Debian, Ubuntu   sudo apt install redis-server
  Fedora, RHEL     sudo dnf install redis
  Alpine           sudo apk add redis
  macOS            brew install redis
  Windows          inside WSL, as on Ubuntu
Or use a Redis that you already have:
  Docker           docker run --rm -p 6379:6379 redis
                   holdfast demo --redis redis://127.0.0.1:6379
  anywhere         holdfast demo --redis URL, or set REDIS_URL`

const START_MS = 10_000

/** A redis-server of our own on a free local port, without persistence. It ends with this process at the latest. */
export class PrivateRedis {
  readonly url: string
  readonly #process: ChildProcess
  readonly #dir: string
  readonly #onExit: () => void

  private constructor(port: number, child: ChildProcess, dir: string) {
    this.url = `redis://127.0.0.1:${port}`
    this.#process = child
    this.#dir = dir
    this.#onExit = () => this.#end()
    process.once('exit', this.#onExit)
    endWithThisProcess(child, dir)
  }

  /**
   * Starts the redis-server on the PATH.
   * @throws {Failure} it is not installed or does not start
   */
  static async start(): Promise<PrivateRedis> {
    if (spawnSync('redis-server', ['--version'], { stdio: 'ignore' }).error) throw unavailable(NOT_INSTALLED)
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
    try {
      for (let tries = 1; ; tries++) {
        const port = await freePort()
        const { child, failure } = await launch(port, dir)
        if (failure === undefined) return new PrivateRedis(port, child, dir)
        // Another process may have taken the port since the check.
        if (tries === 3) throw unavailable(`redis-server did not start:\n${failure}`)
      }
    } catch (error) {
      rmSync(dir, { recursive: true, force: true })
      throw error
    }
  }

  /** Resolves when it has ended. Stopping twice is harmless. */
  async stop(): Promise<void> {
    process.off('exit', this.#onExit)
    const exit = hasEnded(this.#process) ? undefined : once(this.#process, 'exit')
    this.#end()
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #end(): void {
    this.#process.kill('SIGKILL') // it has nothing to save
    rmSync(this.#dir, { recursive: true, force: true })
  }
}

/** Starts the server and waits until it listens on the port; `failure` says why it does not. */
async function launch(port: number, dir: string): Promise<{ child: ChildProcess; failure: string | undefined }> {
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', options, { cwd: dir, stdio: ['ignore', 'pipe', 'ignore'] })
  const log: string[] = []
  const failure = await new Promise<string | undefined>((resolve) => {
    const timer = setTimeout(() => resolve(`it was not ready within ${START_MS} ms\n${log.join('\n')}`), START_MS)
    const settle = (failure: string | undefined): void => {
      clearTimeout(timer)
      resolve(failure)
    }
    createInterface(child.stdout).on('line', (line) => {
      if (log.length < 50) log.push(line)
      if (/ready to accept connections/i.test(line)) settle(undefined)
    })
    child.once('error', (error) => settle(error.message))
    child.once('close', () => settle(log.slice(-5).join('\n')))
  })
  if (failure !== undefined) child.kill('SIGKILL')
  return { child, failure }
}

/** Ends the server however this process ends, even by SIGKILL: the stdin of the guard closes then. */
function endWithThisProcess(child: ChildProcess, dir: string): void {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"; rm -rf "$2"'
  const guard = spawn('sh', ['-c', script, 'guard', String(child.pid), dir], { stdio: ['pipe', 'ignore', 'ignore'] })
  guard.on('error', () => {})
  guard.stdin.on('error', () => {})
  guard.unref()
  if (guard.stdin instanceof Socket) guard.stdin.unref()
  child.once('exit', () => guard.kill('SIGKILL'))
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

/** Below the range that the kernel uses for outgoing connections, so that no client is assigned it meanwhile. */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = 10_000 + Math.floor(Math.random() * 20_000)
    const probe = createServer()
    try {
      probe.listen(port, '127.0.0.1')
      await once(probe, 'listening')
    } catch {
      continue
    }
    probe.close()
    await once(probe, 'close')
    return port
  }
  throw unavailable('No free port was found on 127.0.0.1 between 10000 and 29999')
}

function unavailable(message: string): Failure {
  return new Failure(EXIT.unavailable, message)
}

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { EXIT, Failure } from '../exit-codes.js'

const HOW_TO_INSTALL = `  Debian, Ubuntu   sudo apt-get install redis-server
  Fedora, RHEL     sudo dnf install redis
  Alpine           apk add redis
  macOS            brew install redis
  Windows          inside WSL: sudo apt-get install redis-server
  Docker           docker run --rm -p 6379:6379 redis, and give --redis redis://127.0.0.1:6379`

const START_MS = 10_000

/** A redis-server of our own on a free port of this machine, without persistence. It ends with this process at the latest. */
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
   * @param say  told what takes a while
   * @throws {Failure} it is not installed and may not be, or does not start
   */
  static async start(say: (line: string) => void): Promise<PrivateRedis> {
    ensureInstalled(say)
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
    try {
      for (let tries = 1; ; tries++) {
        const port = await freePort()
        const { child, failure } = await launch(port, dir)
        if (failure === undefined) return new PrivateRedis(port, child, dir)
        // Somebody may have taken the port since it was checked.
        if (tries === 3) throw unavailable(`redis-server did not start:\n${failure}`)
      }
    } catch (error) {
      rmSync(dir, { recursive: true, force: true })
      throw error
    }
  }

  /** Resolved when it is gone. Stopping twice is harmless. */
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

/** Starts the server, and waits until this very process listens on the port; else tells why it did not. */
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

/** Whatever ends this process, SIGKILL included, ends the server: the guard's stdin closes when we are gone. */
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

/** Below the range from which the kernel serves outgoing connections, so that no client of anybody gets it meanwhile. */
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

function ensureInstalled(say: (line: string) => void): void {
  if (isOnPath('redis-server')) return
  if (process.getuid?.() !== 0 || !isOnPath('apt-get')) {
    throw unavailable(`redis-server is not installed. Install it, or name a Redis with --redis:\n${HOW_TO_INSTALL}`)
  }
  say('redis-server is not installed: installing it with apt-get …')
  const said = withoutStartingServices(() => [
    apt('update'),
    apt('install', '-y', '--no-install-recommends', 'redis-server'),
  ])
  if (isOnPath('redis-server')) return
  throw unavailable(
    `${said.join('\n')}\n\napt-get (its words are above) did not bring redis-server.\n${HOW_TO_INSTALL}`,
  )
}

function isOnPath(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0
}

function apt(...args: string[]): string {
  const { stdout, stderr } = spawnSync('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 * 1024,
  })
  return `${stdout}${stderr}`.trim()
}

/** Debian starts what it installs, on port 6379, unless this file says no. */
function withoutStartingServices<T>(install: () => T): T {
  const policy = '/usr/sbin/policy-rc.d'
  if (existsSync(policy)) return install()
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    return install()
  } finally {
    rmSync(policy, { force: true })
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

/** The redis-server of a run: nothing is written to disk, and nobody else uses it. */
export class RedisPlace {
  readonly port: number
  readonly url: string
  readonly admin: Redis
  readonly #dir: string
  readonly #process: ChildProcess

  private constructor(port: number, dir: string, process: ChildProcess) {
    this.port = port
    this.url = `redis://127.0.0.1:${port}`
    this.admin = new Redis(this.url, { retryStrategy: () => 20 })
    this.admin.on('error', () => {}) // until it is up
    this.#dir = dir
    this.#process = process
  }

  static async start(): Promise<RedisPlace> {
    const port = await freePort()
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
    const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no']
    const server = spawn('redis-server', options, { stdio: 'ignore' })
    process.on('exit', () => {
      server.kill('SIGKILL')
      rmSync(dir, { recursive: true, force: true })
    })
    await once(server, 'spawn')
    const place = new RedisPlace(port, dir, server)
    await place.admin.ping()
    return place
  }

  async version(): Promise<string> {
    return /redis_version:(\S+)/.exec(await this.admin.info('server'))?.[1] ?? '?'
  }

  /** Calls of EVAL, EVALSHA and FCALL so far: no script can call those. */
  async scripts(): Promise<number> {
    const calls = [...(await this.admin.info('commandstats')).matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)]
    return calls.reduce((total, [, count]) => total + Number(count), 0)
  }

  /** Of the processor, ms so far. */
  async cpuMs(): Promise<number> {
    const times = [...(await this.admin.info('cpu')).matchAll(/^used_cpu_(?:sys|user):(\S+)/gm)]
    return times.reduce((total, [, seconds]) => total + Number(seconds) * 1_000, 0)
  }

  /**
   * Counts the commands that clients send while `fn` runs. INFO counts also what scripts call; MONITOR tells one from the
   * other. It costs something: what is counted is not timed.
   */
  async countCommands<T>(fn: () => Promise<T>): Promise<[count: number, result: T]> {
    const monitor = connect(this.port, '127.0.0.1')
    await once(monitor, 'connect')
    let count = 0
    let rest = ''
    monitor.setEncoding('latin1').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line.startsWith('+') && !/^\S+ \[\d+ lua\]/.test(line)) count++
    })
    monitor.write('MONITOR\r\n')
    await once(monitor, 'data')
    count = 0
    const result = await fn()
    await this.admin.echo('the end')
    const counted = count
    monitor.destroy()
    return [counted, result]
  }

  async stop(): Promise<void> {
    this.admin.disconnect()
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
    rmSync(this.#dir, { recursive: true, force: true })
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

import { once } from 'node:events'
import { connect } from 'node:net'
import { Redis } from 'ioredis'
import { freePort, Program } from './program.js'

/** Where a workload runs. */
export interface Place {
  readonly url: string
  readonly isCluster: boolean
  empty(): Promise<unknown>
  /** CPU time of the servers so far, ms. */
  cpuMs(): Promise<number>
  /** Counts the commands that clients send while `fn` runs. */
  countCommands<T>(fn: () => Promise<T>): Promise<[count: number, result: T]>
  stop(): Promise<void>
}

/** The redis-server of a run, without persistence and used by nobody else. */
export class RedisPlace implements Place {
  readonly isCluster = false
  readonly port: number
  readonly url: string
  readonly admin: Redis
  readonly #program: Program

  private constructor(port: number, program: Program) {
    this.port = port
    this.url = `redis://127.0.0.1:${port}`
    this.admin = new Redis(this.url)
    this.#program = program
  }

  static async start(...more: string[]): Promise<RedisPlace> {
    const port = await freePort()
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...more]
    return new RedisPlace(port, await Program.start(port, 'redis-server', () => args))
  }

  empty(): Promise<unknown> {
    return this.admin.flushall()
  }

  async version(): Promise<string> {
    return /redis_version:(\S+)/.exec(await this.admin.info('server'))?.[1] ?? '?'
  }

  /** Calls of EVAL, EVALSHA and FCALL so far. Scripts cannot call those. */
  async scripts(): Promise<number> {
    const calls = [...(await this.admin.info('commandstats')).matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm)]
    return calls.reduce((total, [, count]) => total + Number(count), 0)
  }

  /** In use, bytes. */
  async memory(): Promise<number> {
    return Number(/^used_memory:(\d+)/m.exec(await this.admin.info('memory'))?.[1])
  }

  async cpuMs(): Promise<number> {
    const times = [...(await this.admin.info('cpu')).matchAll(/^used_cpu_(?:sys|user):(\S+)/gm)]
    return times.reduce((total, [, seconds]) => total + Number(seconds) * 1_000, 0)
  }

  /**
   * INFO also counts the commands that scripts call; MONITOR tells them apart, but slows Redis, so counted runs are not
   * timed.
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
    await this.#program.stop()
  }
}

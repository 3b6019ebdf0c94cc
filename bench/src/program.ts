import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const START_MS = 20_000

/** A server next to this process, in its own directory. Both end with this process. */
export class Program {
  readonly #process: ChildProcess
  readonly #dir: string

  private constructor(process: ChildProcess, dir: string) {
    this.#process = process
    this.#dir = dir
  }

  /** @returns once it listens on `port` */
  static async start(port: number, command: string, argsIn: (dir: string) => readonly string[]): Promise<Program> {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
    const program = new Program(spawn(command, [...argsIn(dir)], { stdio: 'ignore', cwd: dir }), dir)
    process.on('exit', () => program.#end())
    await once(program.#process, 'spawn')
    for (const endsAt = performance.now() + START_MS; !(await listens(port)); await sleep(20)) {
      if (performance.now() > endsAt) throw new Error(`${command} does not listen on port ${port}`)
    }
    return program
  }

  async stop(): Promise<void> {
    const ended = once(this.#process, 'exit')
    this.#end()
    await ended
  }

  #end(): void {
    this.#process.kill('SIGKILL')
    rmSync(this.#dir, { recursive: true, force: true })
  }
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
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

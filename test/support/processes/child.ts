import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { waitUntil } from '../wait-until.js'
import { tieToThisProcess } from './process-exit.js'

/** What parent and child send each other: one JSON object a line, over stdin and stdout. */
export type ChildMessage = Record<string, unknown>

/**
 * Runs a compiled module in a Node process of its own, which ends with this one.
 * @param module           such as `new URL('./contender.js', import.meta.url)`, or a path
 * @param options.env      added to this process's environment
 * @param options.nodeArgs for node itself, before the module
 */
export function spawnChild(
  module: string | URL,
  args: string[] = [],
  options: { env?: Record<string, string>; nodeArgs?: string[] } = {},
): Child {
  const path = String(module).startsWith('file:') ? fileURLToPath(module) : String(module)
  // The child reports to us, not to the test runner.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, ...options.env }
  return new Child(spawn(process.execPath, [...(options.nodeArgs ?? []), path, ...args], { env }))
}

/** The parent's side of a child process. */
export class Child implements AsyncDisposable {
  /** Resolves when the process has ended and all it wrote has been read. */
  readonly exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  readonly #process: ChildProcessWithoutNullStreams
  readonly #unread: ChildMessage[] = []
  #stdout = ''
  #stderr = ''
  #ended = false

  constructor(child: ChildProcessWithoutNullStreams) {
    this.#process = child
    tieToThisProcess(child)
    this.exit = new Promise((resolve) => {
      child.once('close', (code: number | null, signal: NodeJS.Signals | null) => {
        this.#ended = true
        resolve({ code, signal })
      })
    })
    child.on('error', (error) => {
      this.#stderr += `${error.message}\n`
    })
    child.stdin.on('error', () => {})
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    createInterface(child.stdout).on('line', (line) => {
      const message = parse(line)
      if (message) this.#unread.push(message)
      else this.#stdout += `${line}\n`
    })
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** What the child wrote to stdout that is not a message. */
  get stdout(): string {
    return this.#stdout
  }

  get stderr(): string {
    return this.#stderr
  }

  /** Sends a command to the child's `onCommand` handler. */
  send(command: object): void {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`)
  }

  /** Closes the child's stdin: no more commands will come, so that nothing of ours keeps it alive. */
  endCommands(): void {
    this.#process.stdin.end()
  }

  /**
   * The oldest message that was not returned yet and satisfies `predicate`; the others stay for later calls.
   * Fails after `timeoutMs`, or when the child ends without having sent it.
   */
  async nextMessage<M extends object = ChildMessage>(
    predicate: (message: M) => boolean = () => true,
    timeoutMs = 30_000,
  ): Promise<M> {
    const take = () => {
      const ended = this.#ended
      const index = this.#unread.findIndex((message) => predicate(message as M))
      if (index >= 0) return { message: this.#unread.splice(index, 1)[0] as M }
      if (ended) throw new Error(`the child ended without the message\n${this.#stderr}`)
      return undefined
    }
    const message = () => `a message from the child\n${this.#stderr}`
    return (await waitUntil(take, { timeoutMs, message })).message
  }

  /** SIGSTOP: the whole process stands still. */
  freeze(): void {
    this.#process.kill('SIGSTOP')
  }

  /** SIGCONT. */
  thaw(): void {
    this.#process.kill('SIGCONT')
  }

  /** SIGKILL; resolved when the process is gone. Stopping twice is harmless. */
  async stop(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** In the child: sends a message to the parent. */
export function report(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

/**
 * In the child: handles what the parent sends, one command at a time in order of arrival. Waiting for commands keeps
 * the process alive until the parent calls `endCommands`, or until the returned function is called.
 */
export function onCommand<C extends object = ChildMessage>(handler: (command: C) => unknown): () => void {
  const lines = createInterface(process.stdin)
  let last: Promise<unknown> = Promise.resolve()
  lines.on('line', (line) => {
    const command = parse(line)
    if (command) last = last.then(() => handler(command as C))
  })
  return () => {
    lines.close()
    process.stdin.destroy()
  }
}

function parse(line: string): ChildMessage | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as ChildMessage) : undefined
  } catch {
    return undefined
  }
}

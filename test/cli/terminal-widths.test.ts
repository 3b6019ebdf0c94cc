/** What the commands for operators draw in terminals of any width, through a real pseudo-terminal. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { cellsOf, cutTo } from '../../src/cli/cells.js'
import { tieToThisProcess } from '../support/processes/process-exit.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'
const NAMES = [
  'lock:a',
  '在庫:注文:在庫:注文:在庫:注文:在庫:注文',
  'lock:🚲🚲🚲🚲🚲🚲🚲🚲🚲🚲',
  `lock:${'long'.repeat(40)}`,
]
const WIDTHS = [40, 60, 80, 132]
const ROWS = 24
/** Hides the cursor, before each drawing. */
const DRAWS = '\x1b[?25l'

describe('a terminal of any width', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
    for (const name of NAMES) await server.admin.multi().hset(name, `${JAVA}:41`, 1).pexpire(name, 600_000).exec()
    const permits = server.admin.multi().set('permits', 2)
    await permits.zadd('{permits}:timeout', Date.now() + 600_000, Buffer.from('0f'.repeat(16), 'hex')).exec()
  })
  after(async () => {
    await server.admin.flushall()
    await server.stop()
  })

  /** What a command draws until it ends, or until it has drawn often enough and is interrupted. */
  async function drawn(columns: number, command: string, most = Number.POSITIVE_INFINITY): Promise<string> {
    const line = `stty cols ${columns} rows ${ROWS}; exec '${process.execPath}' '${MAIN}' ${command}`
    const env = { ...process.env, REDIS_URL: server.url, HOLDFAST_CONFIG: '', SHELL: '/bin/sh', TERM: 'xterm' }
    const terminal = spawn('script', ['-qec', line, '/dev/null'], { env })
    tieToThisProcess(terminal)
    let screen = ''
    let isInterrupted = false
    for await (const text of terminal.stdout.setEncoding('utf8')) {
      screen += text
      if (isInterrupted || screen.split(DRAWS).length - 1 < most) continue
      isInterrupted = true
      terminal.stdin.write('\x03')
    }
    return screen.replaceAll('\r', '')
  }

  const linesOf = (screen: string): string[] =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal executes
    screen.replace(/\x1b\[[?\d;]*[A-Za-z]/g, '').split('\n')

  for (const columns of WIDTHS) {
    it(`holdfast ls fits ${columns} columns, with the beginning of each name`, async () => {
      const lines = linesOf(await drawn(columns, 'ls'))
      for (const line of lines) assert(cellsOf(line) <= columns, line)
      for (const name of [...NAMES, 'permits']) {
        assert(
          lines.some((line) => line.startsWith(cutTo(12, name).slice(0, -1))),
          `${name} in\n${lines.join('\n')}`,
        )
      }
    })

    it(`holdfast top fits ${columns} columns, and each drawing covers the one before`, async () => {
      const screen = await drawn(columns, 'top', 3)
      for (const line of linesOf(screen)) assert(cellsOf(line) <= columns, line)
      const drawings = screen.split(DRAWS).slice(1)
      assert(drawings.length >= 2, screen)
      const heights = drawings.map((one) => one.split('\x1b[2K').length - 1)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
      const climbed = drawings.map((one) => Number(/^\x1b\[(\d+)A/.exec(one)?.[1] ?? 0))
      assert.deepEqual(climbed.slice(1), heights.slice(0, -1))
      assert(Math.max(...heights) < ROWS, `${heights}`)
    })
  }
})

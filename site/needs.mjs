// What a code block of the pages borrows by `<!-- example: client, lock -->`, written out. The tests run the blocks with
// the same names of test/docs/prelude.ts.
const CONNECT = "import { connect } from 'holdfast'"
const URL = 'redis://127.0.0.1:6379'
const CLIENT = `const client = await connect('${URL}')`

/** In the order in which they are shown. */
const NEEDS = {
  client: [CONNECT, CLIENT],
  lock: [CONNECT, CLIENT, "const lock = client.getLock('lock:order:1001')"],
  otherClient: [CONNECT, `const otherClient = await connect('${URL}') // as in another process`],
  redis: ["import { Redis } from 'ioredis'", `const redis = new Redis('${URL}')`],
  nodeRedis: [
    "import { createClient } from 'redis'",
    `const nodeRedis = await createClient({ url: '${URL}' }).connect()`,
  ],
  postgres: [
    'declare const postgres: { query(sql: string, values: unknown[]): Promise<{ rows: any[]; rowCount: number }> } // as of pg',
  ],
  servers: [`const servers = ['${URL}/1', '${URL}/2', '${URL}/3'] // of three servers`],
  orderId: ["const orderId = '1001'"],
  charge: ['declare function charge(order: string, options?: { signal?: AbortSignal }): Promise<void>'],
  rebuildIndex: ['declare function rebuildIndex(options?: { signal?: AbortSignal }): Promise<void>'],
  sendReceipt: ['declare function sendReceipt(order: string): Promise<void>'],
  pause: ['declare function pause(ms: number, signal?: AbortSignal): Promise<void>'],
  crunch: ['declare function crunch(): void'],
  server: ['declare const server: { close(): Promise<void> }'],
  log: ['const log = console.log'],
}

/** The lines that a block needs before it, with an empty line at the end. */
export function needsOf(names, code) {
  const lines = new Set()
  for (const name of Object.keys(NEEDS).filter((name) => names.includes(name))) {
    for (const line of NEEDS[name]) lines.add(line)
  }
  const unknown = names.filter((name) => !(name in NEEDS))
  if (unknown.length > 0) throw new Error(`site/needs.mjs has no ${unknown.join(', ')}`)
  const isImport = (line) => line.startsWith('import ')
  const needed = [...lines].filter((line) => !isImport(line) || !importsSame(code, line))
  return [...needed.filter(isImport), ...needed.filter((line) => !isImport(line)), ''].join('\n')
}

/** Whether the block has the only name that this line imports. */
function importsSame(code, line) {
  const [, name, from] = /\{ (\w+) \} from '(.*)'/.exec(line)
  return new RegExp(`^import \\{[^}]*\\b${name}\\b[^}]*\\} from '${from}'`, 'm').test(code)
}

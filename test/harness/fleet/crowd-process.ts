/**
 * A process with many connections that look like clients of Holdfast to others: each has an inbox and a record, holds one
 * lock and replies what it holds. Arguments: the port of Redis, the number of the first one, how many.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { readRequest, writeStateReply } from '../../../src/fleet/protocol.js'
import { clientRecordKey, INBOX_PREFIX } from '../../../src/wire/keys.js'
import { onCommand, report } from '../../support/processes/child.js'
import { clientAt, holderAt, lockAt } from './crowd.js'

const [port = 0, first = 0, count = 0] = process.argv.slice(2).map(Number)
/** How many connect at once: the server accepts only so many. */
const AT_ONCE = 50
/** Longer than a request. */
const MOST_TEXT = 4_096
const RECORD_TTL_MS = 3_600_000
const MESSAGE = /\$7\r\nmessage\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n([^\r]*)\r\n/g

for (let at = 0; at < count; at += AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - at) }, (_, one) => join(first + at + one)))
}
report({ at: 'ready' })
onCommand(() => {}) // lives until the program ends it

/** Resolves once it has an inbox. */
async function join(number: number): Promise<void> {
  const client = clientAt(number)
  const record = {
    v: 1,
    client,
    name: 'crowd',
    host: 'crowd-1',
    pid: process.pid,
    version: '1.0.0',
    holds: [],
    waits: [],
  }
  const socket = connect(port, '127.0.0.1').setEncoding('utf8').setNoDelay()
  await once(socket, 'connect')
  let text = ''
  const subscribed = new Promise<void>((resolve) => {
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.includes('subscribe\r\n')) resolve()
      let end = 0
      for (const found of text.matchAll(MESSAGE)) {
        reply(number, found[1] ?? '', (words) => socket.write(command(words)))
        end = found.index + found[0].length
      }
      text = text.slice(end).slice(-MOST_TEXT)
    })
  })
  socket.write(command(['HELLO', '3']))
  socket.write(command(['SET', clientRecordKey(client), JSON.stringify(record), 'PX', String(RECORD_TTL_MS)]))
  socket.write(command(['SUBSCRIBE', INBOX_PREFIX + client]))
  await subscribed
}

function reply(number: number, message: string, send: (words: readonly string[]) => void): void {
  const request = readRequest(message)
  if (!request || 'unknown' in request) return
  const lock = lockAt(number)
  const isAsked = request.locks === undefined || request.locks.includes(lock)
  const hold = { lock, holder: holderAt(number), count: 1, heldMs: Math.round(performance.now()), label: 'order' }
  const state = { client: clientAt(number), holds: isAsked ? [hold] : [], waits: [], more: 0, nonce: request.nonce }
  send(['PUBLISH', request.reply, writeStateReply(state)])
}

function command(words: readonly string[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
}

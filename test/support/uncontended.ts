import assert from 'node:assert/strict'
import type { Client } from '../../src/index.js'
import { wordsOf } from './servers/resp-frames.js'
import type { TcpProxy } from './servers/tcp-proxy.js'

/**
 * What a client sends for a lock that nobody else wants, taken and released ten times, and its connections then.
 * @param proxy  its only way to Redis
 */
export async function uncontended(client: Client, proxy: TcpProxy): Promise<{ sent: string; connections: number }> {
  const lock = client.getLock('uncontended')
  await (await lock.lock()).unlock() // from here on Redis knows the scripts
  const requests = proxy.record()
  for (let n = 0; n < 10; n++) await (await lock.lock()).unlock()
  // Connections are checked every few seconds, whatever the client does, and not with each command.
  const sent = requests.filter((frame) => !/^(PING|CLIENT INFO)/i.test(wordsOf(frame).join(' ')))
  assert(requests.length - sent.length < 10, `${requests.length - sent.length} checks of connections`)
  // The time at which a command was sent, epoch ms.
  const bytes = Buffer.concat(sent)
    .toString('latin1')
    .replaceAll(/\b1\d{12}\r\n/g, 'its time\r\n')
  return { sent: bytes.replaceAll(client.id, 'its id'), connections: proxy.connections }
}

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { settlesWithin } from '../wait-until.js'
import { reset } from './tcp-proxy.js'

describe('reset', () => {
  for (const [when, before] of [
    ['is open', () => {}],
    ['is being closed by its own side', (socket: Socket) => socket.end()],
    ['has been closed by its own side', async (socket: Socket) => once(socket.end(), 'finish')],
  ] as const) {
    it(`reset() closes a connection that ${when}`, async () => {
      const listener = createServer({ allowHalfOpen: true }, (peer) => {
        peer.on('error', () => {}).resume()
        socket.once('close', () => peer.destroy())
      })
      await once(listener.listen(0, '127.0.0.1'), 'listening')
      const socket = connect((listener.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
      await once(socket, 'connect')
      listener.close()
      const closed = once(socket, 'close')
      await before(socket)
      reset(socket)
      assert.equal((await settlesWithin(closed, 5_000)).status, 'fulfilled')
    })
  }
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterChannels } from '../../src/adapters/cluster-channels.js'
import { turn } from '../../src/testing/virtual-clock.js'

describe('ClusterChannels', () => {
  it('ClusterChannels leave a server that no longer owns the slot, and end the connection', async () => {
    const calls: string[] = []
    let owner = 'a:1'
    const channels = new ClusterChannels({
      ownerOf: () => owner,
      open: async (address) => ({
        async subscribe(channel) {
          calls.push(`${address} subscribe ${channel}`)
          // SUBSCRIBE has succeeded; SSUBSCRIBE is redirected.
          if (address === 'a:1') throw new Error('MOVED 1 b:2')
        },
        unsubscribe: async (channel) => void calls.push(`${address} unsubscribe ${channel}`),
        ping: async () => {},
        end: () => calls.push(`${address} end`),
      }),
      refresh: () => {},
      isErrorReply: () => true,
    })
    const subscribed = channels.subscribe('c', () => {})
    await turn()
    owner = 'b:2'
    channels.checkOwners()
    await subscribed
    assert.deepEqual(calls, ['a:1 subscribe c', 'a:1 unsubscribe c', 'a:1 end', 'b:2 subscribe c'])
    channels.close()
  })
})

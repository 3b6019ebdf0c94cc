import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type SentinelAddress, SentinelMasterStatus } from '../../src/adapters/sentinel-master-status.js'

const SENTINEL = { host: '127.0.0.1', port: 26_379 }
const REPLIES: Record<string, unknown> = {
  'GET-MASTER-ADDR-BY-NAME': ['10.0.0.1', '6379'],
  MASTER: ['ip', '10.0.0.1', 'port', '6379', 'runid', 'abc', 'flags', 'master', 'config-epoch', '3'],
  REPLICAS: [['flags', 'slave']],
  SENTINELS: [],
}

describe('the status of a master according to Sentinels', () => {
  function setUp() {
    const opened: SentinelAddress[] = []
    const ended: SentinelAddress[] = []
    const open = (address: SentinelAddress) => {
      opened.push(address)
      return {
        isOpen: true,
        call: async (_: string, what = '') => REPLIES[what],
        end: () => void ended.push(address),
      }
    }
    return { status: new SentinelMasterStatus('shop', [SENTINEL], open, true), opened, ended }
  }

  it('the status of a master is confirmed by the majority, over one connection for each Sentinel', async () => {
    const { status, opened } = setUp()
    for (let check = 0; check < 2; check++) {
      assert.deepEqual(await status.of('abc', undefined), { replicas: 1, isConfirmed: true, isPartial: false })
    }
    assert.deepEqual(opened, [SENTINEL])
  })

  it('the status of a master is confirmed by most of the Sentinels there are, not of all there were', async () => {
    let ports = [1, 2, 3]
    const open = ({ port }: SentinelAddress) => ({
      isOpen: true,
      call: async (_: string, what = '') => {
        if (!ports.includes(port)) throw new Error('connection refused')
        const others = ports.filter((other) => other !== port)
        if (what === 'SENTINELS') return others.map((other) => ['ip', 's', 'port', String(other), 'flags', 'sentinel'])
        return REPLIES[what]
      },
      end: () => {},
    })
    const status = new SentinelMasterStatus('shop', [{ host: 's', port: 1 }], open, true)
    const isConfirmed = async () => {
      const { isConfirmed, isPartial } = (await status.of('abc', undefined)) ?? {}
      return isConfirmed && !isPartial
    }
    assert(await isConfirmed(), 'the others are asked as soon as one tells of them')
    for (const port of [4, 5, 6]) {
      ports = [...ports.slice(1), port] // and SENTINEL RESET
      await isConfirmed()
      assert(await isConfirmed(), `with ${ports}`)
    }
    ports = [4]
    assert(await isConfirmed(), 'the only one that is left')
  })

  it('the status of a master that is requested when it closes leaves no connection to Sentinels named then', async () => {
    const opened: number[] = []
    const open = ({ port }: SentinelAddress) => {
      opened.push(port)
      const call = async (_: string, what = '') => {
        if (what !== 'SENTINELS') return REPLIES[what]
        status.close()
        return [2, 3].map((other) => ['ip', 's', 'port', String(other), 'flags', 'sentinel'])
      }
      return { isOpen: true, call, end: () => {} }
    }
    const status: SentinelMasterStatus = new SentinelMasterStatus('shop', [{ host: 's', port: 1 }], open, true)
    await status.of('abc', undefined)
    assert.deepEqual(opened, [1])
  })

  it('the status of a master is not requested after close(): no connection is left behind', async () => {
    const { status, opened, ended } = setUp()
    await status.of('abc', undefined)
    status.close()
    assert.deepEqual(ended, [SENTINEL])
    status.add(SENTINEL) // a client adds the Sentinel that it is connected to before each check
    assert.equal(await status.of('abc', undefined), undefined)
    assert.deepEqual(await status.responding(), [])
    assert.equal(opened.length, 1)
  })
})

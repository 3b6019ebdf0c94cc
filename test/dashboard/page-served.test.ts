/** The page of the dashboard as its own server serves it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { serveDashboard } from '../../src/dashboard/serve.js'
import { connect } from '../../src/index.js'
import { FakeFleet, heldLock, holder } from '../support/dashboard.js'
import { spawnChild } from '../support/processes/child.js'
import { startRedis } from '../support/servers/redis-server.js'
import { open, press, showsText, texts } from './browser.js'

type Source = Parameters<typeof serveDashboard>[0]['client']

/** As the package has it: the compiled tests are in build/. */
const PAGE = new URL('../../../dist/dashboard/page/', import.meta.url)
const HOLDING_PROCESS = new URL('./holding-process.js', import.meta.url)
const JAVA_HOLDER = '10488e73-94d1-4c8e-8f8a-3b2f6f0e9a11:41'

describe('the page and its server', () => {
  it('the page and its server break a lock for the operator, by the policy of the server', async () => {
    const fleet = new FakeFleet()
    fleet.present = [heldLock('lock:a'), heldLock('lock:b', { holders: [holder({ holder: 'c0ffee:2' })] })]
    const served = await serve({ fleet })
    try {
      const { page, complaints } = await open(`${served.url}#token=${served.token}`)
      await showsText(page, '#locks .col-name', 'lock:b')
      await showsText(page, '.address', 'redis of the test')
      await press(page, '/')
      await page.keyboard.type('lock:b')
      await press(page, 'Enter', 'Enter')
      await showsText(page, '.timeline', 'orders@orders-1')
      await page.click('.card .danger')
      await page.type('dialog label:nth-of-type(1) input', 'lock:b')
      await page.type('dialog label:nth-of-type(2) input', 'INC-4711')
      await page.click('dialog .solid')
      await showsText(page, 'dialog', 'Released by its holder.')
      const [unlock] = fleet.unlocks
      assert.ok(unlock)
      const { name, holder: broken, reason, graceMs, anyway } = unlock
      assert.deepEqual([name, broken, reason, graceMs, anyway], ['lock:b', 'c0ffee:2', 'INC-4711', 2_000, false])
      assert.deepEqual(complaints, [])
    } finally {
      await served.close()
    }
  })

  it('the page and its server tell working, stopped, killed and foreign processes apart', async () => {
    await using redis = await startRedis()
    await using client = await connect(redis.url)
    const start = async (name: string) => {
      const child = spawnChild(HOLDING_PROCESS, [redis.url, name])
      await child.nextMessage(({ at }) => at === 'held')
      return child
    }
    await using _working = await start('lock:working')
    await using frozen = await start('lock:frozen')
    await using killed = await start('lock:killed')
    await redis.admin.hset('lock:java', JAVA_HOLDER, 1)
    await redis.admin.pexpire('lock:java', 600_000)

    const served = await serve(client)
    try {
      const { page, complaints } = await open(`${served.url}#token=${served.token}`)
      for (const name of ['working', 'frozen', 'killed'])
        await showsText(page, '#locks tr', new RegExp(`^lock:${name}.*responding`))
      frozen.freeze()
      await killed.stop()
      await showsText(page, '#locks tr', /^lock:working.*●responding.*orders@orders-1.*refund/)
      await showsText(page, '#locks tr', /^lock:frozen.*○silent.*orders@orders-1/)
      await showsText(page, '#locks tr', /^lock:killed.*✗disconnected.*orders@orders-1/)
      await showsText(page, '#locks tr', /^lock:java.*>.*\?unlisted.*10488e73:41/)
      await page.click('#tab-clients')
      await showsText(page, '#clients tr', /responding.*orders.*orders-1/)
      assert.ok((await texts(page, '#clients tbody tr')).length >= 2)
      assert.deepEqual(complaints, [])
    } finally {
      frozen.thaw()
      await served.close()
    }
  })
})

function serve(client: Source) {
  const where = { host: '127.0.0.1', port: 0, hosts: [] }
  const options = { client, ...where, readOnly: false, user: 'tester', title: 'redis of the test' }
  return serveDashboard(options, { pageFolder: PAGE })
}

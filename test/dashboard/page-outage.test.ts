/** What the page of the dashboard says while Redis cannot be read. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { serveDashboard } from '../../src/dashboard/serve.js'
import { FakeFleet, heldLock } from '../support/dashboard.js'
import { waitUntil } from '../support/wait-until.js'
import { open, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet } from './fake-fleet.js'

/** As the package has it: the compiled tests are in build/. */
const PAGE = new URL('../../../dist/dashboard/page/', import.meta.url)
/** For so long the numbers go on without news, and a little more, ms. */
const RUN_ON_MS = 3_000
const DRIVER = 'Reached the max retries per request limit (which is 2).'

describe('an outage of Redis', () => {
  it('an outage is shown with since when it lasts and from when the rows are; the driver is quoted on request only', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    const colour = `getComputedStyle(document.querySelector('#locks tbody .col-name')).color`
    const live = await page.evaluate(colour)
    dashboard.fail(DRIVER)
    await showsText(page, '.banner strong', /^Redis has been unreadable since \d\d:\d\d:\d\d\.$/)
    await showsText(page, '.banner span', /^What is shown is from \d\d:\d\d:\d\d/)
    const seen = await page.evaluate('document.body.innerText')
    assert.ok(!String(seen).includes(DRIVER))
    await page.click('.banner summary')
    assert.ok(String(await page.evaluate('document.body.innerText')).includes(DRIVER))
    await showsText(page, '#locks .col-name', 'lock:nightly')
    assert.notEqual(await page.evaluate(colour), live, 'the rows are dimmed')
    await showsText(page, '.figures .as-of', /^At \d\d:\d\d:\d\d:$/)
    await page.click('#tab-clients')
    await showsText(page, '.note', 'Not up to date: Redis cannot be read.')
    await page.click('#tab-locks')
    dashboard.fail(undefined)
    await waitUntil(async () => (await texts(page, '.banner, .as-of')).length === 0)
    assert.equal(await page.evaluate(colour), live)
    assert.deepEqual(complaints, [])
  })

  it('an outage stops the numbers that count, as nobody knows whether they still do', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url, { isCalm: false })
    await showsText(page, '#locks .col-name', 'lock:nightly')
    dashboard.fail(DRIVER)
    const ages = async (): Promise<string> => (await texts(page, '#locks tbody .col-held')).join()
    await new Promise((resolve) => setTimeout(resolve, RUN_ON_MS))
    const before = await ages()
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    assert.equal(await ages(), before)
  })

  it('an outage without any row does not count as no lock being held', async () => {
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks: [] })
    const { page } = await open(dashboard.url)
    await showsText(page, '.empty', 'No lock is held.')
    dashboard.fail(DRIVER)
    await showsText(page, '.empty', /^No lock was held at \d\d:\d\d:\d\d\. What is held now is not known\.$/)
  })

  it('an outage from before the page was opened leaves all open, and ends by itself', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    dashboard.isUnread = true
    const { page } = await open(dashboard.url)
    await showsText(page, '.banner strong', /^Redis has been unreadable since/)
    await showsText(page, '.banner span', 'What is held is not known.')
    await showsText(page, '.empty', 'What is held is not known.')
    assert.deepEqual(new Set(await texts(page, '.figures dd')), new Set(['–']))
    assert.deepEqual(await texts(page, '.choice output'), [''])
    await page.click('#tab-clients')
    await showsText(page, '.note', 'Not up to date: Redis cannot be read.')
    assert.deepEqual(await texts(page, '.empty'), [''])
    await page.click('#tab-graph')
    await showsText(page, '.empty', 'Who is waiting is not known.')
    await page.click('#tab-locks')
    dashboard.isUnread = false
    await showsText(page, '#locks .col-name', 'lock:nightly')
    assert.deepEqual(await texts(page, '.banner'), [])
  })

  it('an outage of the served dashboard reaches the page, and a page that is opened meanwhile', async () => {
    const fleet = new FakeFleet()
    fleet.present = [heldLock('lock:a')]
    const where = { host: '127.0.0.1', port: 0, hosts: [] }
    const options = { client: { fleet }, ...where, readOnly: false, user: 'tester' }
    const served = await serveDashboard(options, { pageFolder: PAGE })
    try {
      fleet.failure = new Error(DRIVER)
      const { page } = await open(`${served.url}#token=${served.token}`)
      await showsText(page, '.empty', 'What is held is not known.')
      fleet.failure = undefined
      await showsText(page, '#locks .col-name', 'lock:a')
      fleet.failure = new Error(DRIVER)
      await showsText(page, '.banner', 'What is shown is from')
      const { page: late } = await open(`${served.url}#token=${served.token}`)
      await showsText(late, '.banner', 'What is shown is from')
      await showsText(late, '#locks .col-name', 'lock:a')
    } finally {
      await served.close()
    }
  })
})

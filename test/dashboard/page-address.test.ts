/** The address of the page of the dashboard is what it shows, and never has the token. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'puppeteer-core'
import { waitUntil } from '../support/wait-until.js'
import { focused, open, openIn, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet, idOf } from './fake-fleet.js'

const NIGHTLY = idOf('lock:nightly')

async function showsAddress(page: Page, dashboard: FakeDashboard, address: string): Promise<void> {
  await waitUntil(() => page.url() === `${dashboard.origin}/${address}`, { message: () => page.url() })
}

describe('the address of the page', () => {
  it('the address is a link to a lock among those that were searched for, without the token', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await showsAddress(page, dashboard, '')
    await page.click('.choice fieldset button:nth-of-type(2)')
    await press(page, '/')
    await page.keyboard.type('a&b #token=x')
    await showsAddress(page, dashboard, '#/locks?q=a%26b+%23token%3Dx&show=contended')
    await page.reload()
    await showsText(page, '.empty', 'No lock matches.')
    assert.equal(await page.$eval('#search', ({ value }: { value: string }) => value), 'a&b #token=x')
    await page.click('#search', { count: 3 })
    await page.keyboard.type('nightly')
    await press(page, 'Enter', 'Enter')
    const link = `#/locks?lock=${NIGHTLY}&q=nightly&show=contended`
    await showsAddress(page, dashboard, link)

    const colleague = await open(`${dashboard.origin}/${link}`)
    await colleague.page.type('.token-form input', dashboard.token)
    await press(colleague.page, 'Enter')
    await showsText(colleague.page, '#detail-title', 'lock:nightly')
    await showsText(colleague.page, '.choice output', '1 of 48')
    await showsAddress(colleague.page, dashboard, link)
    assert.deepEqual(colleague.complaints, [])
  })

  it('the address goes back and forth between views and locks, but not through each letter of a search', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await page.click('#tab-audit')
    await showsAddress(page, dashboard, '#/audit')
    await press(page, '/')
    await page.keyboard.type('stock:7')
    await showsAddress(page, dashboard, '#/locks?q=stock%3A7')
    await showsText(page, '.choice output', '1 of 48')
    await page.click(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await showsText(page, '#detail-title', 'lock:stock:7')
    await waitUntil(async () => (await focused(page)) === 'detail-title')

    await page.goBack()
    await showsAddress(page, dashboard, '#/locks?q=stock%3A7')
    await waitUntil(async () => (await texts(page, '.detail')).length === 0)
    assert.equal(await focused(page), 'locks')
    await page.goBack()
    await showsAddress(page, dashboard, '#/audit')
    await showsText(page, '#audit tr', 'INC-4698')
    await page.goForward()
    await page.goForward()
    await showsText(page, '#detail-title', 'lock:stock:7')
    await page.reload()
    await showsText(page, '#detail-title', 'lock:stock:7')
  })

  it('the address gives up a token that is entered into it later, and what is shown stays', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(`${dashboard.origin}/#/locks?lock=${NIGHTLY}`)
    await page.waitForSelector('.token-form')
    await page.evaluate(`location.hash = '#token=${dashboard.token}'`)
    await showsText(page, '#detail-title', 'lock:nightly')
    await showsAddress(page, dashboard, `#/locks?lock=${NIGHTLY}`)
  })

  it('the address may be nonsense, or have a token where none belongs', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    for (const hash of ['#/locks?lock=../audit', '#/nothing', '#/locks?show=all&token=stolen', '#/%']) {
      const tab = await page.browserContext().newPage()
      await openIn(tab, dashboard.url)
      await showsText(tab, '#locks .col-name', 'lock:nightly')
      await tab.evaluate(`location.hash = ${JSON.stringify(hash)}`)
      await showsAddress(tab, dashboard, '')
      await tab.reload()
      await showsText(tab, '#locks .col-name', 'lock:nightly')
      await tab.close()
    }
    assert.deepEqual(complaints, [])
  })
})

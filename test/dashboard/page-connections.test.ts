/** The page of the dashboard leaves connections to the other tabs: a browser has six to a host. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'puppeteer-core'
import { waitUntil } from '../support/wait-until.js'
import { open, openIn, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet, idOf } from './fake-fleet.js'

const TABS = 9

async function breakNightly(page: Page): Promise<void> {
  await page.click(`tr[data-key="${idOf('lock:nightly')}"]`)
  await page.waitForSelector('.card .danger')
  await page.click('.card .danger')
  await page.type('dialog label:nth-of-type(1) input', 'lock:nightly')
  await page.type('dialog label:nth-of-type(2) input', 'INC-4711')
  await page.click('dialog .solid')
  await showsText(page, 'dialog', 'Released by its holder.')
}

describe('the connections of the page', () => {
  it(`the page is live in the last of ${TABS} tabs, breaks a lock there, and the hidden ones have no stream`, async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const first = await open(dashboard.url, { hasTabs: true })
    await showsText(first.page, '#locks .col-name', 'lock:nightly')
    let last = first.page
    for (let tab = 2; tab <= TABS; tab += 1) {
      last = await first.page.browserContext().newPage()
      await openIn(last, dashboard.url)
      await showsText(last, '#locks .col-name', 'lock:nightly')
    }
    await breakNightly(last)
    await waitUntil(() => dashboard.streams === 1, { message: () => `${dashboard.streams} streams are open` })
    const requests = dashboard.requested.length
    await first.page.bringToFront()
    dashboard.push([], [idOf('lock:nightly')])
    await waitUntil(async () => !(await texts(first.page, '#locks .col-name')).includes('lock:nightly'))
    await waitUntil(() => dashboard.streams === 1, { message: () => `${dashboard.streams} streams are open` })
    assert.ok(dashboard.requested.slice(requests).includes('/api/stream'))
    assert.deepEqual(first.complaints, [])
  })

  it(`the page is live at the visit number ${TABS} of one tab, also after going back to an earlier one`, async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints } = await open(dashboard.url)
    for (let visit = 2; visit <= TABS; visit += 1) {
      await showsText(page, '#locks .col-name', 'lock:nightly')
      await page.goto('about:blank')
      await page.goto(dashboard.url)
    }
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await page.goBack()
    await page.goBack()
    dashboard.push([], [idOf('lock:stock:7')])
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await waitUntil(async () => !(await texts(page, '#locks .col-name')).includes('lock:stock:7'))
    await breakNightly(page)
    await waitUntil(() => dashboard.streams === 1, { message: () => `${dashboard.streams} streams are open` })
    assert.deepEqual(complaints, [])
  })
})

/** The page of the dashboard on a phone. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { waitUntil } from '../support/wait-until.js'
import { open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet, holder, lock } from './fake-fleet.js'

const PHONE = { width: 390, height: 844 }
const NAME = 'payments:settlement:2026-11:merchant:4711'

describe('the page on a phone', () => {
  it('the page on a phone has two lines for each lock: its whole name, and who has held it for how long', async () => {
    const fleet = demoFleet()
    fleet.locks = [...fleet.locks, lock(NAME, [holder('unlisted')])]
    await using dashboard = await FakeDashboard.start(fleet)
    const { page } = await open(dashboard.url, PHONE)
    await showsText(page, '#locks .line:first-child', NAME)
    const cut = await page.evaluate(`[...document.querySelectorAll('#locks tbody .col-name')]
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ textContent }) => textContent)`)
    assert.deepEqual(cut, [])
    await showsText(page, '#locks .line:nth-child(2)', /^2h 14m●respondingreports@rep-5d8waiting 3$/)
    const heights = (await page.evaluate(
      `[...document.querySelectorAll('#locks tbody tr[data-key]')].map((row) => row.offsetHeight)`,
    )) as number[]
    assert.deepEqual(new Set(heights), new Set([60]))
    await page.focus('#locks')
    await press(page, 'End')
    const isVisible = `(() => { const row = document.querySelector('#locks tr[aria-selected="true"]')?.getBoundingClientRect()
      const view = document.querySelector('.scroller').getBoundingClientRect()
      return row !== undefined && row.top > view.top - 1 && row.bottom < view.bottom + 1 })()`
    await waitUntil(async () => await page.evaluate(isVisible))
    await page.click('#locks th button')
    await showsText(page, '[aria-sort="ascending"] button', 'Lock')
  })

  it('the page on a phone keeps application and host of clients, and lock, who and why of forced releases', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url, PHONE)
    await page.click('#tab-clients')
    await showsText(page, '#clients tbody tr', /^ordersorders-7f9c●respondingholds 12losses\/h 0$/)
    await page.click('#tab-audit')
    await showsText(page, '#audit tbody tr', /^lock:stock:7ben@ops-1INC-4698, process was killed2026-11-20.*freed$/)
    const hidden = await page.evaluate(`[...document.querySelectorAll('#audit tbody tr[data-key] .line > *')]
      .filter(({ offsetWidth }) => offsetWidth < 30).map(({ textContent }) => textContent)`)
    assert.deepEqual(hidden, [])
  })

  it('the page on a phone has its figures in one line that scrolls', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url, PHONE)
    await showsText(page, '.figures', 'Deadlocks1')
    const tops = (await page.evaluate(
      `[...document.querySelectorAll('.figures dd')].map((one) => one.getBoundingClientRect().top)`,
    )) as number[]
    assert.equal(new Set(tops).size, 1)
    assert.equal((await texts(page, '.figures dd')).length, 7)
    await page.focus('.figures')
    await press(page, 'ArrowRight')
    await waitUntil(async () => Number(await page.$eval('.figures', ({ scrollLeft }) => scrollLeft)) > 0)
  })
})

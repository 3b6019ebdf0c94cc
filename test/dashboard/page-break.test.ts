/** The dialog in which the page of the dashboard breaks a lock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'puppeteer-core'
import { waitUntil } from '../support/wait-until.js'
import { open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet, idOf } from './fake-fleet.js'

const QUARANTINE = 'dialog input[type="number"]'

async function openDialog(page: Page, name: string): Promise<void> {
  await page.waitForSelector(`tr[data-key="${idOf(name)}"]`)
  await page.click(`tr[data-key="${idOf(name)}"]`)
  await page.waitForSelector('.card .danger')
  await page.click('.card .danger')
  await page.type('dialog label:nth-of-type(1) input', name)
  await page.type('dialog label:nth-of-type(2) input', 'INC-4711')
}

describe('the dialog that breaks a lock', () => {
  it('the dialog asks for a quarantine only where one works, and sends it', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await openDialog(page, 'lock:stock:7')
    await page.click('dialog [type="checkbox"]')
    assert.deepEqual(await texts(page, QUARANTINE), [], 'a read-write lock')
    await press(page, 'Escape')
    await waitUntil(async () => (await texts(page, 'dialog')).length === 0)

    await openDialog(page, 'lock:nightly')
    assert.deepEqual(await texts(page, QUARANTINE), [], 'only together with freeing it anyway')
    await page.click('dialog [type="checkbox"]')
    await page.click(QUARANTINE, { count: 3 })
    await page.keyboard.type('61')
    await page.click('dialog .solid')
    assert.deepEqual(dashboard.unlocks, [], 'at most a minute')
    await page.click(QUARANTINE, { count: 3 })
    await page.keyboard.type('30')
    await page.click('dialog .solid')
    await showsText(page, 'dialog', 'Released by its holder.')
    assert.deepEqual(
      dashboard.unlocks.map(({ anyway, quarantineMs }) => [anyway, quarantineMs]),
      [[true, 30_000]],
    )
  })

  it('the dialog is gone as soon as nothing may be broken any more', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await openDialog(page, 'lock:nightly')
    dashboard.readOnly = true
    dashboard.cut()
    await waitUntil(async () => (await texts(page, 'dialog')).length === 0, { timeoutMs: 30_000 })
    assert.deepEqual(await texts(page, '.danger'), [])
  })
})

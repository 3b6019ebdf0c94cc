/** The page of the dashboard, without a mouse. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { waitUntil } from '../support/wait-until.js'
import { focused, open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { demoFleet, idOf } from './fake-fleet.js'

const SELECTED = '#locks tr[aria-selected="true"] .col-name'

describe('the page with the keyboard only', () => {
  it('the keyboard alone finds a lock and breaks it', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')

    await press(page, '/')
    assert.equal(await focused(page), 'search')
    await page.keyboard.type('nightly')
    await showsText(page, '.choice output', '1 of 48')
    await press(page, 'Enter', 'Enter')
    await showsText(page, '#detail-title', 'lock:nightly')
    await waitUntil(async () => (await focused(page)) === 'detail-title')

    while (!(await focused(page)).startsWith('Break lock:nightly')) await press(page, 'Tab')
    await press(page, 'Enter')
    await showsText(page, 'dialog', 'will be interrupted')
    assert.match(await focused(page), /Type the lock's name/)
    await page.keyboard.type('lock:nightl')
    await press(page, 'Tab')
    await page.keyboard.type('INC-4711')
    await press(page, 'Enter')
    assert.deepEqual(dashboard.unlocks, [], 'the name is not complete')

    await page.keyboard.down('Shift')
    await press(page, 'Tab')
    await page.keyboard.up('Shift')
    await press(page, 'End')
    await page.keyboard.type('y')
    await press(page, 'Enter')
    await showsText(page, 'dialog', 'Released by its holder.')
    const [holder] = dashboard.fleet.locks.find(({ name }) => name === 'lock:nightly')?.holders ?? []
    assert.deepEqual(dashboard.unlocks, [
      { id: idOf('lock:nightly'), holder: holder?.holder, reason: 'INC-4711', graceMs: 2000, anyway: false },
    ])

    await press(page, 'Enter') // closes the dialog
    await waitUntil(async () => (await texts(page, 'dialog')).length === 0)
    await press(page, 'Escape')
    await waitUntil(async () => (await texts(page, '#detail-title')).length === 0)
    assert.equal(await focused(page), 'locks')
    assert.deepEqual(complaints, [])
  })

  it('the keyboard moves through the rows with j, k and the arrow keys, also beyond those in view', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await press(page, 'j')
    assert.deepEqual(await texts(page, SELECTED), ['lock:nightly'])
    await press(page, 'j', 'ArrowDown', 'k')
    await showsText(page, SELECTED, 'lock:stock:7')
    await press(page, 'End')
    await waitUntil(async () => (await texts(page, SELECTED)).length === 1)
    const rendered = (await texts(page, '#locks tbody tr[data-key]')).length
    assert.ok(rendered < 40, `${rendered} of 48 rows are rendered`)
    const isVisible = `(() => { const row = document.querySelector('#locks tr[aria-selected="true"]').getBoundingClientRect()
      const view = document.querySelector('.scroller').getBoundingClientRect()
      return row.top >= view.top && row.bottom <= view.bottom })()`
    assert.equal(await page.evaluate(isVisible), true)
  })

  it('the keyboard sorts by any column, and the page says so', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await page.focus('#locks .col-name button')
    await press(page, 'Enter')
    await showsText(page, '#locks tbody .col-name', 'catalog')
    assert.deepEqual((await texts(page, '#locks tbody .col-name')).slice(0, 2), ['catalog', 'lock:invoice:88'])
    assert.deepEqual(await texts(page, '[aria-sort="ascending"] button'), ['Lock'])
    await press(page, 'Enter')
    await waitUntil(async () => (await texts(page, '#locks tbody .col-name'))[0] === 'migration')
  })
})

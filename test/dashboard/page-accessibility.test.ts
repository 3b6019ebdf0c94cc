/** axe-core finds nothing on any view of the page of the dashboard, light or dark. With SCREENSHOTS=<folder> writes them. */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import axe from 'axe-core'
import type { Page } from 'puppeteer-core'
import { waitUntil } from '../support/wait-until.js'
import { open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { client, demoFleet, healthyLocks, idOf } from './fake-fleet.js'

const FOLDER = process.env['SCREENSHOTS']
const WIDTHS = [1280, 768, 390]
const DRIVER =
  'Redis did not reply to "inspect" for "*": Reached the max retries per request limit (which is 2). Refer to ' +
  '"maxRetriesPerRequest" option for details. (connect ECONNREFUSED 127.0.0.1:22610)'

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

describe('the page is accessible', () => {
  for (const theme of ['light', 'dark'] as const) {
    it(`the page is accessible in the ${theme} theme, in every view`, async () => {
      await using dashboard = await FakeDashboard.start(demoFleet())
      const { page, complaints } = await open(dashboard.url, { theme })
      const check = async (name: string): Promise<void> => {
        await expectNoViolations(page, `${name}, ${theme}`)
        await capture(page, `dashboard-${name}-${theme}`)
      }
      await showsText(page, '#locks .col-name', 'lock:nightly')
      await check('locks')
      await page.click(`tr[data-key="${idOf('lock:stock:7')}"]`)
      await showsText(page, '.timeline', 'billing')
      await check('lock')
      await page.click('.card .danger')
      await showsText(page, 'dialog', 'probably gone')
      await page.type('dialog label:nth-of-type(1) input', 'lock:stock:7')
      await page.type('dialog label:nth-of-type(2) input', 'INC-4711')
      await check('break')
      await press(page, 'Escape')
      await waitUntil(async () => (await texts(page, 'dialog')).length === 0)
      for (const tab of ['graph', 'clients', 'jobs', 'audit']) {
        await page.click(`#tab-${tab}`)
        await showsText(page, '#view', /move stock|lock:transfer:a|billing|cleanup|INC-4711/)
        if (tab === 'graph') await page.waitForSelector('.drawing svg')
        await check(tab)
      }
      dashboard.isDown = true
      dashboard.cut()
      await page.waitForSelector('.banner')
      await check('stale')
      assert.deepEqual(complaints, [])
    })
  }

  it('the page is accessible without a token and without a lock', async () => {
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks: [] })
    const { page: stranger } = await open(dashboard.origin)
    await stranger.waitForSelector('.token-form')
    await expectNoViolations(stranger, 'token form')
    const { page } = await open(dashboard.url)
    await showsText(page, '.empty', 'No lock is held.')
    await expectNoViolations(page, 'empty')
  })

  for (const theme of ['light', ...(FOLDER === undefined ? [] : ['dark'])] as ('light' | 'dark')[]) {
    for (const width of WIDTHS) {
      it(`the page is accessible at a width of ${width} px in the ${theme} theme, in every state`, async () => {
        const fleet = demoFleet()
        await using dashboard = await FakeDashboard.start({ ...fleet, locks: [] })
        const { page, complaints } = await open(dashboard.url, { theme, width, height: 844 })
        const check = async (name: string): Promise<void> => {
          const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
          assert.ok(Number(overflow) <= 0, `${name}: ${overflow} px wider than the screen`)
          await expectNoViolations(page, `${name}, ${width}, ${theme}`)
          await capture(page, `state-${name}-${width}-${theme}`)
        }
        await showsText(page, '.empty', 'No lock is held.')
        await check('0-locks')
        dashboard.push(fleet.locks.slice(0, 10), [])
        await showsText(page, '.choice output', '10 of 10')
        await check('10-locks')
        for (const tab of ['clients', 'jobs', 'audit']) {
          await page.click(`#tab-${tab}`)
          await showsText(page, '#view', /billing|cleanup|INC-4711/)
          await check(tab)
        }
        await page.click('#tab-locks')
        dashboard.push(healthyLocks(992), [])
        await showsText(page, '.choice output', '1,000 of 1,000')
        await check('1000-locks')
        const silent = ['orders', 'checkout', 'reports'].map((name) => client(name, `${name}-7f9c8d6b5-x2x4z`))
        dashboard.doubts = [
          { about: 'hidden-listeners', count: 1 },
          { about: 'silent-clients', count: 3, clients: silent },
          { about: 'hidden-locks', count: 4711, locks: ['session:1', 'session:2'] },
        ]
        await showsText(page, '.doubts', 'Not all is known.')
        await check('limited')
        dashboard.doubts = []
        dashboard.fail(DRIVER)
        await showsText(page, '.banner', 'Redis has been unreadable')
        await check('outage')
        assert.deepEqual(complaints, [])
      })
    }
  }
})

async function capture(page: Page, name: string): Promise<void> {
  if (FOLDER === undefined) return
  mkdirSync(FOLDER, { recursive: true })
  await page.screenshot({ path: join(FOLDER, `${name}.png`) })
}

async function expectNoViolations(page: Page, where: string): Promise<void> {
  // The page requires Trusted Types and allows no script from elsewhere; the debugger's evaluation is not subject to that.
  await page.evaluate(axe.source)
  const { violations } = (await page.evaluate('axe.run()')) as { violations: Violation[] }
  const found = violations.map(({ id, nodes }) =>
    [id, ...nodes.map(({ html, failureSummary }) => `  ${html}\n  ${failureSummary}`)].join('\n'),
  )
  assert.deepEqual(found, [], where)
}

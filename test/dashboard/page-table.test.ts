/** What an operator does with the table of locks, and what it does by itself. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Page } from 'puppeteer-core'
import { waitUntil } from '../support/wait-until.js'
import { open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { client, demoFleet, holder, idOf, lock } from './fake-fleet.js'

const names = (page: Page): Promise<string[]> => texts(page, '#locks tbody .col-name')

async function click(page: Page, title: string): Promise<void> {
  await page.click(`::-p-xpath(//div[@class="tools"]/button[text()="${title}"])`)
}

describe('the table of locks', () => {
  it('the table of locks can be paused, refreshed and resumed, while the figures go on', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url, { isCalm: false })
    await showsText(page, '#locks .col-name', 'lock:nightly')
    await click(page, 'Pause')
    await showsText(page, '.choice output', /^48 of 48 · paused at \d\d:\d\d:\d\d$/)
    dashboard.push([], [idOf('lock:nightly')])
    await showsText(page, '.figures', 'Held47')
    assert.ok((await names(page)).includes('lock:nightly'))
    const shown = (await texts(page, '#locks tbody td')).join()
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    assert.equal((await texts(page, '#locks tbody td')).join(), shown, 'no number counts')
    await click(page, 'Refresh')
    await showsText(page, '.choice output', '47 of 47 · paused')
    assert.ok(!(await names(page)).includes('lock:nightly'))
    dashboard.push([], [idOf('lock:stock:7')])
    await click(page, 'Resume')
    await showsText(page, '.choice output', /^46 of 46$/)
  })

  it('the table of locks is saved as it is shown, and no cell is a formula', async () => {
    const fleet = demoFleet()
    const evil = client('=HYPERLINK("http://x")', '@host')
    fleet.locks = [
      lock('=1+1', [holder('responding', evil, { label: '-2+3, "quoted"', heldMs: 90_000 })]),
      lock('+plus\n@next', [holder('unlisted')], { otherListeners: 2, remainingLeaseMs: null }),
      lock('free', []),
    ]
    await using dashboard = await FakeDashboard.start(fleet)
    const { page, complaints } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', '=1+1')
    await page.evaluate(`window.saved = []
      URL.createObjectURL = ((make) => (blob) => {
        blob.text().then((text) => saved.push(text))
        return make.call(URL, blob)
      })(URL.createObjectURL)`)
    const saved = async (index: number): Promise<string[]> => {
      const text = await waitUntil(async () => (await page.evaluate(`saved[${index}]`)) as string | undefined)
      return text.split('\r\n')
    }
    await press(page, '/')
    await page.keyboard.type('responding')
    await showsText(page, '.choice output', '1 of 3')
    await click(page, 'CSV')
    const [head, row, end] = await saved(0)
    assert.equal(head, 'lock,kind,held_seconds,holders,status,application,host,pid,holder,lease_seconds,waiting,for')
    assert.match(row ?? '', /^'=1\+1,lock,9\d(\.\d)?,1,responding,"'=HYPERLINK\(""http:\/\/x""\)",'@host,1,/)
    assert.match(row ?? '', /,0,"'-2\+3, ""quoted"""$/)
    assert.equal(end, '')
    await press(page, '/', 'Escape')
    await showsText(page, '.choice output', '3 of 3')
    await click(page, 'CSV')
    const all = (await saved(1)).sort()
    assert.equal(all.length, 5)
    assert.ok(all.some((one) => /^'\+plus\\u000a@next,lock,4\d(\.\d)?,1,unlisted,,,,[\da-f-]+:41,,2,$/.test(one)))
    assert.ok(all.includes('free,lock,,0,,,,,,,0,'), all.join('\n'))
    assert.deepEqual(complaints, [])
  })

  it('the table of locks keeps rows of the same age in the order of their names', async () => {
    // Within a second, which is a sample; that second may end in between, so that there are two groups.
    const seen = (order: readonly number[], turn: number) => [
      ...order.map((index, at) =>
        lock(`lock:${index}`, [holder('unlisted', undefined, { seenMs: 20_000 + turn * 1_000 + at * 7 })]),
      ),
      ...(turn === 2 ? [lock('lock:last', [holder('unlisted', undefined, { seenMs: 1_000 })])] : []),
    ]
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks: seen([3, 1, 4, 0, 2], 0) })
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:4')
    const first = await names(page)
    const groups = 1 + first.filter((name, at) => name < (first[at - 1] ?? '')).length
    assert.ok(first.length === 5 && groups <= 2, first.join())
    for (const [turn, order] of [
      [2, 4, 1, 0, 3],
      [0, 3, 2, 1, 4],
    ].entries()) {
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      dashboard.push(seen(order, turn + 1), [])
    }
    await showsText(page, '#locks .col-name', 'lock:last')
    assert.deepEqual(await names(page), [...first, 'lock:last'])
  })

  it('the table of locks announces a new deadlock, and only a new one', async () => {
    const fleet = demoFleet()
    const { deadlocks } = fleet
    const quiet = { cycles: [], suspected: [], doubts: [] }
    fleet.deadlocks = quiet
    await using dashboard = await FakeDashboard.start(fleet)
    const { page } = await open(dashboard.url)
    await showsText(page, '.figures', 'Deadlocks0')
    const region = '[aria-live="assertive"]'
    assert.deepEqual(await texts(page, region), [''])
    fleet.deadlocks = deadlocks
    await showsText(page, region, 'New deadlock: 1 deadlock in all.')
    fleet.deadlocks = { ...deadlocks, cycles: [...deadlocks.cycles, ...deadlocks.cycles] }
    await showsText(page, region, 'New deadlock: 2 deadlocks in all.')
    fleet.deadlocks = quiet
    await showsText(page, region, /^$/)
  })
})

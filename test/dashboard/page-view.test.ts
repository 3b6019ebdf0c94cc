/** What the page of the dashboard shows, and what it does not do. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { waitUntil } from '../support/wait-until.js'
import { open, press, showsText, texts } from './browser.js'
import { FakeDashboard } from './fake-dashboard.js'
import { client, demoFleet, healthyLocks, holder, idOf, lock, waiter } from './fake-fleet.js'

const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(1)</script>',
  "'; location = 'https://example.com' //",
  '\u001b[2J\u001b]0;owned\u0007',
  'lock:\u202egnihton\u2066\u200b',
  '%2e%2e%2f#token=stolen',
  `long:${'x'.repeat(1019)}`,
]

describe('the page', () => {
  it('the page tells a stopped, a killed, a Java and a healthy holder apart by sign, word and colour', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    const looks = `['nightly', 'invoice:88', 'stock:7', 'order:1001'].map((name) => {
      const row = [...document.querySelectorAll('#locks tbody tr')].find((one) => one.textContent.startsWith('lock:' + name))
      const status = row.querySelector('.status')
      return { text: status.textContent, colour: getComputedStyle(status).color } })`
    const found = (await page.evaluate(looks)) as { text: string; colour: string }[]
    assert.deepEqual(
      found.map(({ text }) => text),
      ['●responding', '○silent', '✗disconnected', '?unlisted'],
    )
    assert.equal(new Set(found.map(({ colour }) => colour)).size, 4)
  })

  it('the page shows the figures, and what is known of one lock', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints, origins } = await open(dashboard.url)
    await showsText(page, '.figures', 'Deadlocks1')
    await showsText(page, '.figures', 'Oldest2h 14m')
    await showsText(page, '.figures', 'Losses/h≥ 2')
    await showsText(page, '#locks tr', /lock:order:1001.*>\d+s.*10488e73:41.*≥ 1/)
    await showsText(page, '#locks tr', /migration.*no expiry/)
    await page.click(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await showsText(page, '.detail', 'its process is probably gone')
    await showsText(page, '.detail', 'billing 2.3.1, pid 31 on bill-2c4')
    await showsText(page, '.detail .plain', /checkout@chk-1/)
    await showsText(page, '.timeline', '10488e73:26')
    assert.equal(await page.title(), '⚠ 1 deadlock · Holdfast')
    assert.deepEqual([...origins], [dashboard.origin, 'null'].slice(0, origins.size), 'only its own server')
    assert.deepEqual(complaints, [])
  })

  it('the page counts the losses of clients, and says of which it does not know them', async () => {
    const fleet = demoFleet()
    await using dashboard = await FakeDashboard.start(fleet)
    const { page } = await open(dashboard.url)
    await page.click('#tab-clients')
    await showsText(page, '#clients tbody tr', /checkout.*chk-1.*892/)
    await showsText(page, '#clients tbody tr', /search.*srch-9b1.*221\?/)
    await showsText(page, '.figures', 'Losses/h≥ 2')
    fleet.clients = fleet.clients.map((one) => ({ ...one, lossesLastHour: one.lossesLastHour ?? 0 }))
    dashboard.push(
      [],
      fleet.locks.filter(({ holders }) => holders.some(({ status }) => status === 'unlisted')).map(({ id }) => id),
    )
    await showsText(page, '.figures', 'Losses/h2')
  })

  it('the page names holders that do not describe themselves as the commands do', async () => {
    const holders = {
      java: '10488e73-94d1-4c8e-8f8a-3b2f6f0e9a11:41',
      node: '7c1e02aa-0b5d-4a53-9c0e-d1f2401dfa57:7',
      other: 'a value of another library',
    }
    const locks = Object.entries(holders).map(([name, one]) =>
      lock(name, [holder('unlisted', undefined, { holder: one })]),
    )
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks })
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks tr', /^java.*unlistedRedisson 10488e73:41/)
    await showsText(page, '#locks tr', /^node.*unlistedHoldfast 7c1e02aa:7/)
    await showsText(page, '#locks tr', /^other.*unlisteda value of another library/)
  })

  it('the page shows locks as they come, change and go', async () => {
    await using dashboard = await FakeDashboard.start({ ...demoFleet(), locks: [] })
    const { page } = await open(dashboard.url)
    await showsText(page, '.empty', 'No lock is held.')
    const [row] = healthyLocks(1)
    assert.ok(row)
    dashboard.push([row], [])
    await showsText(page, '#locks tbody tr', /lock:order:2000.*orders@orders-7f9c/)
    dashboard.push([{ ...row, holders: [holder('silent', client('checkout', 'chk-1'))] }], [])
    await showsText(page, '#locks tbody tr', /lock:order:2000.*silent.*checkout@chk-1/)
    dashboard.push([], [row.id])
    await showsText(page, '.empty', 'No lock is held.')
  })

  it('the page draws who waits for whom, and names the deadlock', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page, complaints } = await open(dashboard.url)
    await showsText(page, '.figures', 'Deadlocks1')
    assert.ok(
      !dashboard.requested.some((path) => path.includes('graph-')),
      'the graph is loaded only when it is opened',
    )
    await page.click('#tab-graph')
    await showsText(page, '.deadlocks', 'orders@orders-7f9c holds lock:transfer:a and waits for lock:transfer:b')
    await showsText(page, '.drawing', 'lock:transfer:a')
    assert.equal((await texts(page, '.edge[data-bad="true"]')).length, 4)
    await page.evaluate(`document.querySelector('.node-lock').focus()`)
    await press(page, 'Enter')
    await showsText(page, '#detail-title', 'lock:transfer:a')
    assert.deepEqual(complaints, [])
  })

  it('the page names a new deadlock in the graph without waiting for the next poll', async () => {
    const fleet = demoFleet()
    const { deadlocks } = fleet
    fleet.deadlocks = { cycles: [], suspected: [], doubts: [] }
    await using dashboard = await FakeDashboard.start(fleet)
    const { page } = await open(dashboard.url)
    await page.evaluate(`window.setTimeout = ((set) => (call, ms) => ms === 2_000 ? 0 : set(call, ms))(setTimeout)`)
    await page.click('#tab-graph')
    await showsText(page, '.drawing', 'lock:transfer:a')
    assert.deepEqual(await texts(page, '.deadlocks article'), [])
    fleet.deadlocks = deadlocks
    await showsText(page, '.deadlocks', 'orders@orders-7f9c holds lock:transfer:a and waits for lock:transfer:b')
  })

  it('the page marks the locks of a deadlock, and shows it from there', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks tr:has(.deadlock-mark)', 'lock:transfer:a')
    assert.equal((await texts(page, '.deadlock-mark')).length, 2)
    await page.click(`tr[data-key="${idOf('lock:transfer:a')}"]`)
    await showsText(page, '.detail .note', 'Its holder is in a deadlock.')
    await page.click('.detail .note button')
    await showsText(page, '.deadlocks', 'holds lock:transfer:a and waits for lock:transfer:b')
  })

  it('the page shows clients and forced releases', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await page.click('#tab-audit')
    await showsText(page, '#audit tr', /lock:stock:7.*ben@ops-1.*INC-4698.*freed/)
    await page.click('#tab-clients')
    await showsText(page, '#clients tr', /disconnected.*billing.*2\.3\.1.*bill-2c4.*31/)
  })

  it('the page shows hostile names, labels and hosts as inert text, with control characters as the commands print them', async () => {
    const fleet = demoFleet()
    const evil = client(HOSTILE[0] ?? '', HOSTILE[4] ?? '')
    fleet.locks = HOSTILE.map((name) =>
      lock(name, [holder('responding', evil, { label: name, stack: name, trace: name })], {
        nameLength: name.length > 1_000 ? 1_048_576 : name.length,
        waiters: [waiter(evil, { label: name, chain: [{ id: idOf(name), lock: name, holder: name }] })],
      }),
    )
    fleet.clients = [{ ...evil, status: 'responding', holds: 1 }]
    fleet.audit = HOSTILE.map((name) => ({ at: name, lock: name, holder: name, by: name, reason: name, outcome: name }))
    await using dashboard = await FakeDashboard.start(fleet)
    const { page, complaints, origins } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', '<img src=x onerror=alert(1)>')
    await showsText(page, '#locks .col-name', String.raw`\u001b[2J\u001b]0;owned\u0007`)
    await showsText(page, '#locks .col-name', String.raw`lock:\u202egnihton\u2066`)
    for (const name of HOSTILE) {
      await page.click(`tr[data-key="${idOf(name)}"]`)
      await showsText(page, '.timeline', /./)
      await press(page, 'Escape')
    }
    for (const tab of ['clients', 'audit', 'graph']) {
      await page.click(`#tab-${tab}`)
      await showsText(page, '#view', /onerror|img src/)
    }
    const injected = await page.evaluate(`document.querySelectorAll('img, script:not([type=module]), iframe').length`)
    assert.equal(injected, 0)
    const shown = (await texts(page, 'body')).join('').replaceAll('\n', '')
    assert.doesNotMatch(shown, /[\p{Cc}\p{Bidi_Control}]/u)
    assert.deepEqual(complaints, [])
    assert.equal([...origins].filter((one) => one !== 'null' && one !== dashboard.origin).length, 0)
  })

  it('the page says since when it is stale, connects again by itself, and is whole again', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    dashboard.isDown = true
    dashboard.cut()
    await showsText(page, '.banner', /Stale since \d\d:\d\d:\d\d/)
    dashboard.push([], [idOf('lock:nightly')])
    dashboard.isDown = false
    await page.click('.banner .button')
    await waitUntil(async () => (await texts(page, '.banner')).length === 0, { timeoutMs: 60_000 })
    assert.ok(!(await texts(page, '#locks .col-name')).includes('lock:nightly'))
  })

  it('the page keeps the token for its tab, not in the address, and asks for another if refused', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await showsText(page, '#locks .col-name', 'lock:nightly')
    assert.equal(page.url(), `${dashboard.origin}/`)
    await page.reload()
    await showsText(page, '#locks .col-name', 'lock:nightly')

    const { page: stranger } = await open(`${dashboard.origin}/#token=wrong`)
    await showsText(stranger, '.token-form', 'holdfast ui')
    await stranger.type('.token-form input', dashboard.url)
    await press(stranger, 'Enter')
    await showsText(stranger, '#locks .col-name', 'lock:nightly')
  })

  it('the page offers no way to break a lock where that is not allowed', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet(), { readOnly: true })
    const { page } = await open(dashboard.url)
    await page.waitForSelector(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await page.click(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await showsText(page, '.timeline', /./)
    assert.deepEqual(await texts(page, '.danger'), [])
    await showsText(page, '.badge', 'read-only')
  })

  it('the page offers no way to break a lock to a Redis user who only sees locks', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    dashboard.mayBreak = false
    const { page } = await open(dashboard.url)
    await page.waitForSelector(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await page.click(`tr[data-key="${idOf('lock:stock:7')}"]`)
    await showsText(page, '.timeline', /./)
    assert.deepEqual(await texts(page, '.danger'), [])
    dashboard.mayBreak = true
    await page.waitForSelector('.danger')
  })

  it('the page says what became of a break that was not as wished', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url)
    await page.waitForSelector(`tr[data-key="${idOf('lock:invoice:88')}"]`)
    await page.click(`tr[data-key="${idOf('lock:invoice:88')}"]`)
    const ask = async (): Promise<void> => {
      await page.click('.card .danger')
      await page.type('dialog label:nth-of-type(1) input', 'lock:invoice:88')
      await page.type('dialog label:nth-of-type(2) input', 'INC-1')
      await page.click('dialog .solid')
    }
    await page.waitForSelector('.card .danger')
    dashboard.unlockReply = { error: 'Redis is unreachable.', code: 'unavailable' }
    await ask()
    await showsText(page, 'dialog [role="alert"]', 'Redis is unreachable.')
    await press(page, 'Escape')
    await waitUntil(async () => (await texts(page, 'dialog')).length === 0)
    dashboard.unlockReply = { outcome: 'silent' }
    await ask()
    await showsText(page, 'dialog', 'did not react. Nothing has changed')
  })

  it('the page follows the theme of the system until another one is chosen', async () => {
    await using dashboard = await FakeDashboard.start(demoFleet())
    const { page } = await open(dashboard.url, { theme: 'dark' })
    const ground = `getComputedStyle(document.documentElement).backgroundColor`
    await showsText(page, '#locks .col-name', 'lock:nightly')
    assert.equal(await page.evaluate(ground), 'rgb(13, 17, 23)')
    await page.click('[aria-label="Switch to the light theme"]')
    assert.equal(await page.evaluate(ground), 'rgb(246, 248, 250)')
    await page.reload()
    await showsText(page, '#locks .col-name', 'lock:nightly')
    assert.equal(await page.evaluate(ground), 'rgb(246, 248, 250)')
  })
})

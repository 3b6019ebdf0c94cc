/** `holdfast ui` as an operator has it: its API, and its page in Chromium. */
import type { Browser, Page } from 'puppeteer-core'
import { idOf } from '../../../src/dashboard/rows.js'
import { type Child, spawnChild } from '../../support/processes/child.js'
import { CHROMIUM_TIMEOUT_MS, launchChromium } from '../../support/servers/chromium.js'
import { waitUntil } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import type { Place } from '../place.js'
import { environmentOf, MAIN } from './command.js'
import type { ShownDetail, ShownRow } from './shown.js'

/** A table renders the rows in view: all of them. */
const VIEWPORT = { width: 1_600, height: 16_000, deviceScaleFactor: 1 }
const START_MS = 60_000

export class Dashboard implements AsyncDisposable {
  readonly page: Page
  readonly #server: Child
  readonly #browser: Browser
  readonly #url: string
  readonly #token: string

  static async start(place: Place): Promise<Dashboard> {
    const server = spawnChild(MAIN, ['ui', '--no-open'], { env: environmentOf(place) })
    const [, url = '', token = ''] = await waitUntil(() => /^(http:\S+\/)#token=(\S+)$/m.exec(server.stdout), {
      timeoutMs: START_MS,
      message: () => `the URL, but there is ${server.stdout}${server.stderr}`,
    })
    const browser = await launchChromium()
    const page = await browser.newPage()
    page.setDefaultTimeout(CHROMIUM_TIMEOUT_MS)
    await page.setViewport(VIEWPORT)
    await page.goto(`${url}#token=${token}`, { waitUntil: 'domcontentloaded' })
    await page.waitForSelector('#locks')
    return new Dashboard(page, server, browser, url, token)
  }

  private constructor(page: Page, server: Child, browser: Browser, url: string, token: string) {
    this.page = page
    this.#server = server
    this.#browser = browser
    this.#url = url
    this.#token = token
  }

  /** The process of `holdfast ui`. */
  get pid(): number | undefined {
    return this.#server.pid
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
    await this.#server.stop()
  }

  /** One reply of the API, and from when to when it was asked for, on the clock of the machine, ms. */
  async get<T>(path: string): Promise<{ reply: T; from: number; to: number }> {
    const from = monotonicMs()
    const response = await fetch(`${this.#url}api/${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    if (!response.ok) throw new Error(`GET api/${path}: ${response.status} ${await response.text()}`)
    return { reply: (await response.json()) as T, from, to: monotonicMs() }
  }

  /** What the table of locks shows. */
  async rows(): Promise<ShownRow[]> {
    return (await this.page.evaluate(ROWS)) as ShownRow[]
  }

  async open(lock: string): Promise<void> {
    await this.page.evaluate(`document.querySelector('tr[data-key="${idOf(lock)}"]')?.click()`)
  }

  async close(): Promise<void> {
    await this.page.evaluate(`document.querySelector('.detail header button')?.click()`)
  }

  /** What is shown of the lock that was opened. */
  async detail(): Promise<ShownDetail | undefined> {
    return ((await this.page.evaluate(DETAIL)) as ShownDetail | null) ?? undefined
  }

  async show(tab: 'locks' | 'graph'): Promise<void> {
    await this.page.click(`#tab-${tab}`)
  }

  /** Each deadlock in words, as the graph names it. */
  async deadlocks(): Promise<string[]> {
    return (await this.page.evaluate(DEADLOCKS)) as string[]
  }
}

const ROWS = `[...document.querySelectorAll('#locks tbody tr[data-key]')].map((row) => {
  const text = (selector) => row.querySelector(selector)?.textContent ?? ''
  return {
    name: text('.col-name bdi'),
    kind: text('.col-kind'),
    held: text('.col-held'),
    status: text('.status').slice(1),
    who: text('.col-holder bdi'),
    holder: row.querySelector('.col-holder bdi')?.title ?? '',
    others: text('.holder > .muted'),
    waiting: text('.col-waiting'),
    label: text('.col-label'),
  }
})`

const DETAIL = `(() => {
  const pane = document.querySelector('.detail')
  const body = pane?.querySelector('.detail-body')
  if (!body) return null
  const textOf = (node, selector) => node.querySelector(selector)?.textContent ?? ''
  const factsOf = (node) => Object.fromEntries(
    [...node.querySelectorAll(':scope > dl.facts > div')].map((fact) => [textOf(fact, 'dt'), textOf(fact, 'dd')]))
  return {
    name: textOf(pane, '#detail-title'),
    facts: factsOf(body),
    holders: [...body.querySelectorAll('article.card')].map((card) => ({
      status: textOf(card, '.status').slice(1), who: textOf(card, '.card-head strong'), facts: factsOf(card) })),
    waiters: [...body.querySelectorAll('table.plain tbody tr')].map((row) => ({
      status: textOf(row, '.status').slice(1),
      who: textOf(row, 'bdi'),
      about: [...row.querySelectorAll('.muted')].map((node) => node.textContent),
      waits: row.querySelectorAll('td')[2]?.textContent ?? '' })),
    others: [...body.querySelectorAll('section > p.muted')].map((node) => node.textContent).join(' '),
  }
})()`

const DEADLOCKS = `[...document.querySelectorAll('.deadlocks article[data-tone="bad"]')].map((cycle) =>
  [...cycle.querySelectorAll('li')].map((node) => node.textContent).join('; '))`

/** A Chromium for a test file, and what tests look at in it. */
import { after } from 'node:test'
import type { Browser, Page } from 'puppeteer-core'
import { CHROMIUM_TIMEOUT_MS, launchChromium } from '../support/servers/chromium.js'
import { waitUntil } from '../support/wait-until.js'

let browser: Browser | undefined

after(async () => browser?.close())

export interface Shown {
  readonly page: Page
  /** What the page, or its security policy, complained about. */
  readonly complaints: string[]
  /** Where it sent requests. */
  readonly origins: Set<string>
}

interface Options {
  readonly theme?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
  /** Shows what a person sees who prefers reduced motion: numbers change once a second. Default true. */
  readonly isCalm?: boolean
  /** The file's browser hides a tab behind another; to be set where it is opened first. */
  readonly hasTabs?: boolean
}

/** Opens an address in a context of its own. */
export async function open(url: string, options: Options = {}): Promise<Shown> {
  browser ??= await launchChromium(options)
  const context = await browser.createBrowserContext()
  return await openIn(await context.newPage(), url, options)
}

/** Opens an address in a tab, and waits until the page is there. */
export async function openIn(page: Page, url: string, options: Options = {}): Promise<Shown> {
  const { theme = 'light', width = 1280, height = 800, isCalm = true } = options
  page.setDefaultTimeout(CHROMIUM_TIMEOUT_MS)
  await page.setViewport({ width, height, deviceScaleFactor: 1 })
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: theme },
    { name: 'prefers-reduced-motion', value: isCalm ? 'reduce' : 'no-preference' },
  ])
  const complaints: string[] = []
  const origins = new Set<string>()
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warn') return
    // The browser reports each request that fails, which a test may want to.
    if (!message.text().startsWith('Failed to load resource')) complaints.push(message.text())
  })
  page.on('request', (request) => origins.add(new URL(request.url()).origin))
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(url, { waitUntil: 'domcontentloaded' })
  await page.waitForSelector('h1')
  return { page, complaints, origins }
}

/** Types a key as a person does, wherever the focus is. */
export async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key as Parameters<Page['keyboard']['press']>[0])
}

/** The texts of all elements that a selector finds. */
export async function texts(page: Page, selector: string): Promise<string[]> {
  const found = `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.textContent)`
  return (await page.evaluate(found)) as string[]
}

export async function showsText(page: Page, selector: string, text: string | RegExp): Promise<void> {
  let last: string[] = []
  await waitUntil(
    async () => {
      last = await texts(page, selector)
      return last.some((one) => (typeof text === 'string' ? one.includes(text) : text.test(one)))
    },
    {
      timeoutMs: CHROMIUM_TIMEOUT_MS,
      message: () => `${String(text)} in ${selector}; there is ${JSON.stringify(last)}`,
    },
  )
}

/** A word for what has the focus: its id, label, or text. */
export async function focused(page: Page): Promise<string> {
  const script = `(() => { const one = document.activeElement
    return one.id || one.getAttribute('aria-label') || one.closest('label')?.textContent || one.textContent })()`
  return (await page.evaluate(script)) as string
}

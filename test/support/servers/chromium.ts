/** Chromium without a window, and what its main thread did. */
import { existsSync } from 'node:fs'
import puppeteer, { type Browser } from 'puppeteer-core'

/** Generous: the machine may be busy with other tests. */
export const CHROMIUM_TIMEOUT_MS = 30_000

/** Debian's build without windows, which nobody sees here: they compute more than the page. */
const SHELL = '/usr/bin/chromium-headless-shell'

/**
 * A browser of its own: close it.
 * @param options.hasTabs a tab hides the others, which the build without windows does not know
 */
export async function launchChromium({ hasTabs = false } = {}): Promise<Browser> {
  const isShell = !hasTabs && existsSync(SHELL)
  return await puppeteer.launch({
    executablePath: isShell ? SHELL : (process.env['CHROMIUM'] ?? '/usr/bin/chromium'),
    headless: isShell ? 'shell' : true,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--font-render-hinting=none'],
    timeout: CHROMIUM_TIMEOUT_MS,
    protocolTimeout: CHROMIUM_TIMEOUT_MS,
  })
}

/** The categories of a trace that `longestTask` reads. */
export const TASK_CATEGORIES = ['toplevel', 'devtools.timeline', '__metadata']

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  /** Microseconds: by the wall, and of the thread's processor time. */
  readonly dur?: number
  readonly tdur?: number
  readonly args?: { readonly name?: string }
}

export interface LongestTask {
  /** Of the thread's processor time, and by the wall, ms. */
  readonly cpuMs: number
  readonly wallMs: number
  /** How many tasks there were. */
  readonly tasks: number
}

/**
 * The longest that the thread of a page did without interruption: nothing is drawn meanwhile.
 * @param trace  what `page.tracing.stop()` returned
 */
export function longestTask(trace: Uint8Array | undefined): LongestTask {
  const { traceEvents: events } = JSON.parse(new TextDecoder().decode(trace)) as { traceEvents: TraceEvent[] }
  const mains = events.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
  const isMain = ({ pid, tid }: TraceEvent) => mains.some((main) => main.pid === pid && main.tid === tid)
  const tasks = events.filter((event) => event.ph === 'X' && /RunTask$/.test(event.name) && isMain(event))
  const longest = (of: (event: TraceEvent) => number): number => tasks.reduce((most, one) => Math.max(most, of(one)), 0)
  return {
    cpuMs: longest(({ tdur = 0 }) => tdur) / 1_000,
    wallMs: longest(({ dur = 0 }) => dur) / 1_000,
    tasks: tasks.length,
  }
}

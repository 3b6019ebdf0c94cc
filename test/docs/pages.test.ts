/** Checks the pages without running them: links, and that the references are complete. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { codeBlocksOf, PAGES, ROOT, readPage } from './code-blocks.js'

const ALL_PAGES = [...PAGES, 'CHANGELOG.md']

describe('the pages', () => {
  for (const page of ALL_PAGES) {
    it(`${page} links only to files and headings that exist`, () => {
      const broken = linksOf(page).filter(({ path, anchor }) => {
        if (!existsSync(new URL(path, ROOT))) return true
        return anchor !== '' && !anchorsOf(path).includes(anchor)
      })
      assert.deepEqual(broken, [])
    })
  }

  it('the pages are all linked from README.md, directly or not', () => {
    const reached = new Set(['README.md'])
    for (const page of reached) {
      for (const { path } of linksOf(page)) if (ALL_PAGES.includes(path)) reached.add(path)
    }
    assert.deepEqual(
      ALL_PAGES.filter((page) => !reached.has(page)),
      [],
    )
  })

  it('the pages of docs/ say in their first paragraph what question they answer', () => {
    const silent = PAGES.filter((page) => page.startsWith('docs/')).filter((page) => {
      const [, first = ''] = readPage(page).split(/\n\s*\n/)
      return !first.includes('?')
    })
    assert.deepEqual(silent, [])
  })

  it('the options of calls and of the client are explained in getting-started.md and configuration.md', () => {
    expectNamed('docs/getting-started.md', [
      ...optionsOf('src/locks/options.ts', 'HoldOptions'),
      ...optionsOf('src/locks/options.ts', 'LockOptions'),
      ...optionsOf('src/locks/options.ts', 'WithLockOptions'),
      ...optionsOf('src/shutdown.ts', 'CloseOptions'),
      ...optionsOf('src/shutdown.ts', 'SignalOptions'),
    ])
    expectNamed('docs/configuration.md', [
      ...optionsOf('src/client-options.ts', 'ClientOptions'),
      ...optionsOf('src/client-options.ts', 'InspectionOptions'),
    ])
  })

  it('the options of each lock or synchronizer are explained on its page', () => {
    expectNamed('docs/locks/spin-lock.md', optionsOf('src/locks/kinds/spin.ts', 'SpinLockOptions'))
    expectNamed('docs/locks/fenced-lock.md', [
      ...optionsOf('src/fencing.ts', 'FencedUpdateOptions'),
      ...optionsOf('src/fencing.ts', 'FencedSetOptions'),
    ])
    expectNamed('docs/synchronizers/semaphore.md', optionsOf('src/synchronizers/semaphore.ts', 'SemaphoreOptions'))
    expectNamed('docs/synchronizers/permit-expirable-semaphore.md', [
      ...optionsOf('src/synchronizers/permit-expirable-semaphore.ts', 'PermitOptions'),
      ...optionsOf('src/locks/options.ts', 'HoldOptions'),
    ])
    expectNamed(
      'docs/synchronizers/count-down-latch.md',
      optionsOf('src/synchronizers/count-down-latch.ts', 'AwaitOptions'),
    )
  })

  it('the options for Nest are explained in docs/nestjs.md', () => {
    expectNamed('docs/nestjs.md', [
      ...optionsOf('src/nestjs/locked.ts', 'LockedOptions'),
      ...optionsOf('src/nestjs/health.ts', 'HoldfastHealthOptions'),
      ...NAMED_KIND_IDS,
      'drainMs',
      'isGlobal',
      'name',
    ])
  })

  it('the options and routes of the dashboard are explained in docs/dashboard.md', () => {
    expectNamed('docs/dashboard.md', optionsOf('src/dashboard/dashboard.ts', 'DashboardOptions'))
    const page = readPage('docs/dashboard.md')
    const routes = [...source('src/dashboard/api.ts').matchAll(/^ \* \| `(?:GET|POST) ([\w/]+)/gm)].map(
      ([, path]) => path,
    )
    assert.deepEqual(
      routes.filter((path = '') => !page.includes(path)),
      [],
    )
    assert.ok(routes.length > 5)
  })

  it('each lock is named and linked in docs/locks/README.md, and its getter on its page', () => {
    const overview = linksOf('docs/locks/README.md').map(({ path }) => path)
    const joint = [
      { page: 'multi-lock', getter: 'getMultiLock' },
      { page: 'red-lock', getter: 'getRedLock' },
    ]
    for (const { page, getter } of [...Object.values(KINDS), ...joint]) {
      assert.ok(overview.includes(`docs/locks/${page}.md`), `${page} is not linked in docs/locks/README.md`)
      expectNamed('docs/locks/README.md', [getter])
      expectNamed(`docs/locks/${page}.md`, [getter])
    }
  })

  it('each synchronizer is named in docs/synchronizers/README.md, and its calls on its page', () => {
    const getters = new Set(source('src/client.ts').match(/\bget\w*(?:Semaphore|Latch)\b/g))
    assert.equal(getters.size, 3)
    expectNamed('docs/synchronizers/README.md', [...getters])
    for (const name of ['semaphore', 'permit-expirable-semaphore', 'count-down-latch']) {
      const calls = [...source(`src/synchronizers/${name}.ts`).matchAll(/^ {2}async (\w+)/gm)].map(
        ([, call = '']) => call,
      )
      assert.ok(calls.length >= 5)
      expectNamed(`docs/synchronizers/${name}.md`, calls)
      expectNamed('docs/coming-from-redisson.md', calls)
    }
  })

  it('the pages of locks and synchronizers have the same sections, and an example', () => {
    for (const page of PAGES.filter((path) => /^docs\/(?:locks|synchronizers)\/[^R]/.test(path))) {
      const headings = [...readPage(page).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
      for (const heading of ['What it promises', 'What it does not', 'In Redis', 'With Redisson', 'What it costs']) {
        assert.ok(headings.includes(heading), `${page} has no "${heading}"`)
      }
      assert.ok(
        codeBlocksOf(page).some(({ language }) => language === 'ts'),
        `${page} has no example`,
      )
    }
  })

  it('each error code and each reason of a loss is explained in docs/errors.md', () => {
    const errors = source('src/errors.ts')
    const codes = [...errors.matchAll(/readonly code = '(\w+)'/g)].map(([, code = '']) => code)
    const reasons = /type LossReason = (.*)/.exec(errors)?.[1]?.match(/\w+/g) ?? []
    assert.ok(codes.length > 0 && reasons.length > 0)
    expectNamed('docs/errors.md', [...codes, ...reasons])
  })

  it('each event of the client is named in docs/getting-started.md', () => {
    expectNamed('docs/getting-started.md', optionsOf('src/locks/context.ts', 'ClientEvents'))
  })

  it('each option and exit code of the command line is named in docs/cli.md', () => {
    const usage = source('src/cli/usage.ts')
    const options = new Set(usage.match(/--[a-z][a-z-]+/g))
    const exitCodes = new Set([...usage.matchAll(/^ +(\d{2,3}) {2}/gm)].map(([, code = '']) => code))
    assert.ok(options.size > 5 && exitCodes.size > 5)
    expectNamed('docs/cli.md', [...options, ...exitCodes])
  })

  it('each Redis command of the scripts is named in docs/deploying.md', () => {
    const scripts = source('src/lua/generated.ts')
    const commands = new Set([...scripts.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, command = '']) => `+${command}`))
    assert.ok(commands.size > 0)
    expectNamed('docs/deploying.md', [...commands])
  })
})

describe('a YAML block', () => {
  it('a YAML block can be read', () => {
    for (const { page, line, lines } of PAGES.flatMap(codeBlocksOf).filter(({ language }) => language === 'yaml')) {
      assert.doesNotThrow(() => parse(lines.join('\n'), { logLevel: 'error' }), `${page}:${line}`)
    }
  })
})

describe('the picture of the demo', () => {
  it('the picture of the demo shows the numbers that the pages name', () => {
    const picture = readPage('docs/images/demo.svg')
    const sold = /✘ ([\d,]+) orders for 300 units/.exec(picture)?.[1] ?? 'nothing'
    assert.match(picture, /✔ 300 orders for 300 units: none oversold/)
    for (const page of ['README.md', 'README.zh-CN.md']) assert.ok(readPage(page).includes(sold), `${page}: ${sold}`)
  })
})

describe('a chart of the benchmarks', () => {
  for (const workload of ['w1', 'w3b', 'w4']) {
    it(`a chart of ${workload} shows the rates of its table: npm run bench:charts draws it`, () => {
      const table = new RegExp(`^## ${workload}: [^#]*`, 'm').exec(readPage('bench/results/README.md'))?.[0] ?? ''
      const rates = [...table.matchAll(/^\| ([\w-]+) \| ([\d,.]+) \|/gm)].filter(
        ([, name]) => !name?.endsWith('-tuned'),
      )
      const chart = readPage(`docs/images/benchmark-${workload}.svg`)
      assert.ok(rates.length > 5)
      const drawn = [...chart.matchAll(/<text class="(?:end|soft)"[^>]*>([^<]*)</g)].map(([, text]) => text)
      assert.deepEqual(
        drawn,
        rates.flatMap(([, name, rate]) => [name, rate]),
      )
    })
  }
})

interface Link {
  /** From the root. */
  path: string
  anchor: string
}

/** The links of a page within the project, as Markdown or HTML. */
function linksOf(page: string): Link[] {
  const text = readPage(page).replace(/^```[\s\S]*?^```$/gm, '')
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)].map(
    ([, inline, attribute]) => inline ?? attribute ?? '',
  )
  return targets
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = '', anchor = ''] = target.split('#')
      return { path: path === '' ? page : posix.join(posix.dirname(page), path), anchor }
    })
}

/** The anchors that GitHub makes from the headings of a page. */
function anchorsOf(page: string): string[] {
  return [...readPage(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** The members of an interface in a source file. */
function optionsOf(file: string, name: string): string[] {
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{\\n([\\s\\S]*?)^\\}`, 'm').exec(source(file))?.[1]
  const members = [...(body ?? '').matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, member = '']) => member)
  assert.ok(members.length > 0, `${file} has no members of ${name}`)
  return members
}

function source(file: string): string {
  return readFileSync(new URL(file, ROOT), 'utf8')
}

/** Each name is in the page as a separate word. */
function expectNamed(page: string, names: string[]): void {
  const words = new Set(readPage(page).match(/[+-]{0,2}\w[\w-]*/g))
  assert.deepEqual(
    names.filter((name) => !words.has(name)),
    [],
    `not in ${page}`,
  )
}

/** What a publication needs beside the built package: the README that npm shows, and the workflow. */
import assert from 'node:assert/strict'
import { execSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, it } from 'node:test'
import { parse } from 'yaml'

const ROOT = new URL('../../../', import.meta.url)
const pkg = JSON.parse(read('package.json')) as Manifest
const { absoluteLinks, relativeLinks, repositoryOf } = (await import(
  new URL('scripts/build/readme-links.mjs', ROOT).href
)) as ReadmeLinks

interface Manifest {
  readonly version: string
  readonly scripts?: Readonly<Record<string, string>>
  readonly dependencies?: object
  readonly repository: { readonly url: string }
}
interface Locked {
  readonly integrity?: string
  readonly resolved?: string
  readonly hasInstallScript?: boolean
}
interface Bill {
  readonly bomFormat: string
  readonly metadata: { readonly component: { readonly purl: string } }
  readonly components: readonly { readonly scope: string }[]
}
type Rewrite = (text: string, pkg: Manifest) => string
interface ReadmeLinks {
  readonly absoluteLinks: Rewrite
  readonly relativeLinks: Rewrite
  readonly repositoryOf: (pkg: Manifest) => string
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

describe('the links of a README on npm', () => {
  const example = { version: '1.2.3', repository: { url: 'git+https://github.com/some/one.git' } }

  it('the links of a README lead to the pages and the pictures of the published version', () => {
    assert.equal(
      absoluteLinks('[a](docs/a.md#b) ![c\nd](docs/c.svg) <img src="d.png"> [e](LICENSE)', example),
      '[a](https://github.com/some/one/blob/v1.2.3/docs/a.md#b) ' +
        '![c\nd](https://raw.githubusercontent.com/some/one/v1.2.3/docs/c.svg) ' +
        '<img src="https://raw.githubusercontent.com/some/one/v1.2.3/d.png"> ' +
        '[e](https://github.com/some/one/blob/v1.2.3/LICENSE)',
    )
  })

  it('the links of a README stay as they are if they lead to a heading or elsewhere, and in code', () => {
    for (const text of ['[a](#a)', '[a](https://a.example/b)', '[a](mailto:a@b.example)', '```ts\na[0](b)\n```\n']) {
      assert.equal(absoluteLinks(text, example), text)
    }
  })

  it('the links of a README are relative in the repository, and become absolute and relative again', () => {
    const text = read('README.md')
    const absolute = absoluteLinks(text, pkg)
    assert(!text.includes(repositoryOf(pkg)), 'README.md should link its own pages by relative links')
    assert.deepEqual(absolute.match(/\]\((?!https:\/\/|#)[^)]*\)/g) ?? [], [])
    const paths = [...absolute.matchAll(/\/v[\d.]+\/([^)#"]+)/g)].map(([, path]) => path ?? '')
    assert(paths.length > 20)
    for (const path of paths) assert(existsSync(new URL(path, ROOT)), path)
    assert.equal(relativeLinks(absolute, pkg), text)
  })
})

describe('docs/compatibility.md and docs/runtimes.md', () => {
  it('docs/compatibility.md and docs/runtimes.md name every version that npm run verify -- consumers tries', async () => {
    const { CONSUMERS } = (await import(new URL('test/consumers/table.mjs', ROOT).href)) as {
      CONSUMERS: { tool: string; name: string }[]
    }
    assert.equal(new Set(CONSUMERS.map(({ name }) => name)).size, CONSUMERS.length)
    const pages = read('docs/compatibility.md') + read('docs/runtimes.md')
    const missing = CONSUMERS.filter(({ tool }) => {
      const [name, version = ''] = tool.split(' ')
      const lines = pages.split('\n').filter((line) => line.includes(name ?? ''))
      return !lines.some((line) => line.split(/[^\d.]+/).some((number) => `${number}.`.startsWith(`${version}.`)))
    })
    assert.deepEqual(
      missing.map(({ tool }) => tool),
      [],
    )
  })
})

describe('the release workflow', () => {
  interface Job {
    readonly needs?: string
    readonly permissions: object
    readonly steps: readonly { run?: string; uses?: string }[]
  }
  const text = read('.github/workflows/release.yml')
  const { jobs, permissions } = parse(text) as { jobs: { publish: Job; release: Job }; permissions: object }
  const commandsOf = ({ steps }: Job): string[] => steps.map(({ run, uses }) => run ?? uses ?? '')
  const publish = commandsOf(jobs.publish)

  it('the release workflow publishes with provenance, after the whole gate, and may do nothing else', () => {
    assert.deepEqual(permissions, {})
    assert.deepEqual(jobs.publish.permissions, { contents: 'read', 'id-token': 'write' })
    assert.deepEqual(publish.slice(-4), [
      'npm ci',
      'npm audit signatures',
      '.ci/run',
      'npm publish --provenance --access public',
    ])
    assert(publish.some((command) => command.includes('GITHUB_REF_NAME')))
  })

  it('the release workflow adds a bill of materials to the release, in a job that cannot publish', () => {
    assert.equal(jobs.release.needs, 'publish')
    assert.deepEqual(jobs.release.permissions, { contents: 'write' })
    const command = commandsOf(jobs.release)
      .find((command) => command.startsWith('npm sbom'))
      ?.split(' > ')[0]
    const bill = JSON.parse(execSync(command ?? '', { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' })) as Bill
    assert.deepEqual([bill.bomFormat, bill.metadata.component.purl], ['CycloneDX', `pkg:npm/holdfast@${pkg.version}`])
    assert.deepEqual(
      bill.components.filter(({ scope }) => scope === 'required'),
      [],
    )
  })

  it('the release workflow pins each action to a commit', () => {
    const actions = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ uses }) => uses ?? []))
    assert(actions.length > 0)
    for (const action of actions) assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40}$/)
  })
})

describe('the dependencies', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }
  const locked = Object.entries(packages).filter(([path]) => path !== '')

  it('the package has no dependencies, nor does it run anything when it is installed', () => {
    assert.equal(pkg.dependencies, undefined)
    const scripts = Object.keys(pkg.scripts ?? {}).filter((name) => /install/.test(name)) // `prepare` runs in a clone only
    assert.deepEqual(scripts, [])
  })

  it('development dependencies are locked by hash, from the registry, and few run scripts', () => {
    assert.deepEqual(
      locked.filter(([, { integrity = '' }]) => !integrity.startsWith('sha512-')).map(([path]) => path),
      [],
    )
    const elsewhere = locked.filter(
      ([, { resolved }]) => resolved && !resolved.startsWith('https://registry.npmjs.org/'),
    )
    assert.deepEqual(elsewhere, [])
    const withScripts = locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => basename(path))
    assert.deepEqual([...new Set(withScripts)].sort(), ['esbuild', 'msgpackr-extract', 'protobufjs'])
  })
})

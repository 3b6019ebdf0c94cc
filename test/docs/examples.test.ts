/** Runs every TypeScript block of README.md and docs/, and every program of examples/. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { expectNothingLeft } from '../support/leak-check.js'
import { spawnChild } from '../support/processes/child.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { type CodeBlock, codeBlocksOf, PAGES, ROOT } from './code-blocks.js'

/** The address in the pages; it is replaced by that of the server of this test. */
const SHOWN_URL = 'redis://127.0.0.1:6379'

/** A file that a user has, and the one of the project in its place. */
const SHOWN_FILE = "'redisson.yaml'"
const EXAMPLE_FILE = "'examples/redisson.yaml'"

const BLOCKS = PAGES.flatMap(codeBlocksOf).filter(({ language }) => language === 'ts')
const EXAMPLES = readdirSync(new URL('examples/', ROOT)).filter((file) => file.endsWith('.ts'))
/** Ends the name of a block's file as it is on the site, which shows what a block needs. */
const PASTED = '-pasted'
/** One for each version of Node, which may run this at the same time. */
const OUT = fileURLToPath(new URL(`build/docs-${process.version}/`, ROOT))

let server: RedisServer

before(async () => {
  server = await startRedis()
})

after(async () => {
  await server.stop()
})

describe('a code block', () => {
  const compileErrors = new Map<string, string[]>()
  const outcomes = new Map<string, string | null>()

  before(async () => {
    rmSync(OUT, { recursive: true, force: true })
    mkdirSync(OUT, { recursive: true })
    writeFileSync(join(OUT, 'prelude.ts'), readFileSync(new URL('test/docs/prelude.ts', ROOT)))
    for (const block of BLOCKS) writeFileSync(join(OUT, `${nameOf(block)}.ts`), programOf(block, server.url))
    for (const block of BLOCKS) writeFileSync(join(OUT, `${nameOf(block)}${PASTED}.ts`), await pastedFromSite(block))
    for (const [name, error] of compile()) compileErrors.set(name, [...(compileErrors.get(name) ?? []), error])

    const compiled = BLOCKS.filter((block) => !compileErrors.has(nameOf(block)))
    for (const block of compiled.filter(isTest)) outcomes.set(pathOf(block), runTest(pathOf(block)))
    const paths = compiled.filter((block) => !isTest(block)).map((block) => pathOf(block))
    await using child = spawnChild(new URL('run-blocks.js', import.meta.url), paths, {
      env: { REDIS_URL: server.url, PORT: '0' },
    })
    await child.nextMessage<{ path: string }>(({ path }) => path === 'prelude', 120_000) // a Postgres, on a busy machine
    for (const path of paths) {
      const { failure } = await child.nextMessage<{ path: string; failure: string | null }>(
        (message) => message.path === path,
        60_000, // everything that a block loads, on a busy machine
      )
      outcomes.set(path, failure)
    }
  })

  for (const block of BLOCKS) {
    it(`a code block at ${block.page}:${block.line} compiles and runs`, () => {
      const errors = compileErrors.get(nameOf(block)) ?? []
      assert.ok(errors.length === 0, errors.join('\n'))
      assert.equal(outcomes.get(pathOf(block)), null)
    })
  }

  it('a code block is never marked as JavaScript, which would not be run', () => {
    const others = PAGES.flatMap(codeBlocksOf).filter(({ language }) =>
      /^(js|javascript|mjs|typescript)$/.test(language),
    )
    assert.deepEqual(
      others.map(({ page, line }) => `${page}:${line}`),
      [],
    )
  })
})

describe('an example', () => {
  for (const file of EXAMPLES) {
    it(`${file} prints its documented output, ends by itself, and leaves nothing behind`, async () => {
      const expected = outputOf(readFileSync(new URL(`examples/${file}`, ROOT), 'utf8'))
      const program = new URL(`build/examples/${file.replace(/ts$/, 'js')}`, ROOT)
      await server.admin.flushall()
      await using child = spawnChild(program, [], { env: { REDIS_URL: server.url } })
      const { code } = await child.exit
      assert.equal(child.stderr, '')
      assert.equal(child.stdout, expected)
      assert.equal(code, 0)
      await expectNothingLeft(server, { keys: /^redisson_lock_token:/ })
    })
  }
})

function nameOf({ page, line }: CodeBlock): string {
  return `${page.replace(/\W/g, '-')}-L${line}`
}

/** Whether it is a file of tests itself. */
function isTest({ lines }: CodeBlock): boolean {
  return lines.some((line) => line.endsWith(" from 'node:test'"))
}

/** @returns what failed; null: nothing */
function runTest(path: string): string | null {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--test', path], { env, encoding: 'utf8' })
  return status === 0 && !/^# pass 0|^ℹ pass 0/m.test(stdout) ? null : stdout + stderr
}

function pathOf(block: CodeBlock): string {
  return join(OUT, `${nameOf(block)}.js`)
}

/** A module of the block alone, with one line before it, so that line numbers can be mapped. */
function programOf({ lines, borrows }: CodeBlock, url: string): string {
  const isImport = (line: string) => /^import .* from '.*'$/.test(line)
  const imports = lines.filter(isImport).join('; ')
  // A block of its own lets it redefine a borrowed name.
  const body = lines.map((line) => (isImport(line) ? '' : line)).join('\n')
  const program =
    borrows.length === 0
      ? `${imports};\n${body}`
      : `import { prelude } from './prelude.js'; ${imports}; const { ${borrows.join(', ')} } = await prelude(); {\n${body}\n}`
  return `${program}\nexport {}\n`.replaceAll(SHOWN_URL, url).replaceAll(SHOWN_FILE, EXAMPLE_FILE)
}

/** The block as a reader of the site copies it. */
async function pastedFromSite({ lines, borrows }: CodeBlock): Promise<string> {
  const { needsOf } = (await import(new URL('site/needs.mjs', ROOT).href)) as {
    needsOf(names: readonly string[], code: string): string
  }
  const code = lines.join('\n')
  return `${borrows.length === 0 ? '' : needsOf(borrows, code)}\n${code}\nexport {}\n`
}

/** Compiles all of OUT as a user would, with nothing stricter than `strict`; returns each error with its block. */
function compile(): [name: string, error: string][] {
  const compilerOptions = {
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable'],
    types: ['node'],
    module: 'NodeNext',
    strict: true,
    skipLibCheck: true,
    rootDir: '.',
    experimentalDecorators: true, // for Nest
    emitDecoratorMetadata: true,
  }
  writeFileSync(join(OUT, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const tsc = join(dirname(createRequire(ROOT).resolve('typescript/package.json')), 'bin', 'tsc')
  const { stdout, stderr, status } = spawnSync(process.execPath, [tsc, '-p', OUT, '--pretty', 'false'], {
    cwd: OUT,
    encoding: 'utf8',
  })
  const errors = [...stdout.matchAll(/^([\w-]+)\.ts\((\d+),\d+\): (.*(?:\n {2}.*)*)/gm)]
  if (status !== 0 && errors.length === 0) throw new Error(`tsc failed:\n${stdout}${stderr}`)
  return errors.map(([, name = '', line = '', message = '']) => {
    const block = BLOCKS.find((candidate) => nameOf(candidate) === name.replace(PASTED, ''))
    if (!block) throw new Error(`${name}.ts:${line}: ${message}`)
    if (name.endsWith(PASTED))
      return [nameOf(block), `${block.page}:${block.line}, as pasted from the site: ${message}`]
    return [name, `${block.page}:${block.line + Number(line) - 2}: ${message}`]
  })
}

/** The output that an example documents at its end, after `// Output:`. */
function outputOf(source: string): string {
  const comment = /^\/\/ Output:\n((?:\/\/.*\n)+)$/m.exec(source)?.[1]
  assert.ok(comment, 'the file does not end with `// Output:` and what it prints')
  return comment.replace(/^\/\/ ?/gm, '')
}

/** `npm run verify -- web-locks`, with files like those of web-platform-tests. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

const FILES: Readonly<Record<string, string>> = {
  'resources/helpers.js': 'let count = 0\nself.nameFor = (t) => t.name + ++count',
  'resources/worker.js': `
    importScripts('helpers.js')
    self.onmessage = ({ data: name }) => {
      navigator.locks.request(name, () => new Promise(() => self.postMessage('held')))
    }`,
  'resources/this.js': `'use strict'
    self.addEventListener('message', function answer({ data: name }) {
      this.removeEventListener('message', answer)
      navigator.locks.request(name, (lock) => this.postMessage(lock.name))
    })`,
  'all.https.any.js': `// META: title=All of the harness
    // META: global=window,dedicatedworker
    // META: script=resources/helpers.js
    promise_test(async (t) => {
      const result = await navigator.locks.request(nameFor(t), (lock) => {
        assert_class_string(lock, 'Lock')
        assert_regexp_match(lock.name, /grant/)
        return 'done'
      })
      assert_equals(result, 'done')
      const { held, pending } = await navigator.locks.query()
      assert_array_equals([held.length, pending.length], [0, 0])
    }, 'a request is granted')
    promise_test(async (t) => {
      await promise_rejects_dom(t, 'NotSupportedError', navigator.locks.request('-', t.unreached_func()))
      await promise_rejects_js(t, TypeError, navigator.locks.request('a'))
      const reason = {}
      const signal = AbortSignal.abort(reason)
      await promise_rejects_exactly(t, reason, navigator.locks.request('a', { signal }, t.unreached_func()))
    }, 'a request is refused')
    promise_test(async (t) => {
      const name = nameFor(t)
      const worker = new Worker('resources/worker.js')
      t.add_cleanup(() => worker.terminate())
      const held = new Promise((resolve) => worker.addEventListener('message', resolve))
      worker.postMessage(name)
      assert_equals((await held).data, 'held')
      assert_equals(await navigator.locks.request(name, { ifAvailable: true }, (lock) => lock), null)
      worker.terminate()
      assert_true(await navigator.locks.request(name, () => true))
    }, 'a worker holds a lock until it ends')
    promise_test(async (t) => {
      const worker = new Worker('resources/this.js')
      t.add_cleanup(() => worker.terminate())
      const answers = []
      worker.addEventListener('message', ({ data }) => answers.push(data))
      for (const name of ['first', 'second', 'third']) worker.postMessage(name)
      while (answers.length === 0) await new Promise((resolve) => t.step_timeout(resolve, 1))
      assert_array_equals(answers, ['first'])
    }, 'a listener of a worker has its global scope as this')
    promise_test(async () => {
      await new Promise((granted) => {
        navigator.locks.request('left', () => {
          granted()
          return new Promise(() => {})
        })
      })
      navigator.locks.request('left', () => {})
      const { pending } = await navigator.locks.query()
      assert_array_equals(pending.map(({ name }) => name), ['left'])
    }, 'a request is left waiting')
    test(() => assert_throws_js(TypeError, () => null.x), 'synchronous')
    test(() => {
      assert_idl_attribute(navigator, 'locks')
      assert_throws_js(Error, () => assert_idl_attribute({ locks: 1 }, 'locks'))
    }, 'an attribute is one of the interface')`,
  'uncaught.https.any.js': `
    setup({ allow_uncaught_exception: true })
    promise_test(async () => {
      navigator.locks.request('a', async () => Promise.reject(new Error('of the callback')))
      await navigator.locks.request('a', () => {})
    }, 'a callback rejects')`,
  'failing.https.any.js': `
    promise_test(async () => assert_true(false, 'it is so'), 'fails')
    promise_test(async (t) => {
      t.step_timeout(t.step_func(() => assert_unreached('too late')), 1)
      await new Promise(() => {})
    }, 'a step fails')
    test(() => {}, 'passes')
    promise_test(async () => void Promise.reject(new Error('nobody')), 'rejects')`,
  'window.https.any.js': 'document.body.append(1)',
  'missing.https.any.js': '// META: script=resources/missing.js',
  'page.https.html': '<script></script>',
}

describe('npm run verify -- web-locks', () => {
  let folder: string

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'web-locks-'))
    for (const [name, text] of Object.entries(FILES)) {
      await mkdir(dirname(join(folder, name)), { recursive: true })
      await writeFile(join(folder, name), text)
    }
  })
  after(async () => await rm(folder, { recursive: true }))

  async function verify(...options: string[]): Promise<{ code: number; lines: string[] }> {
    const args = ['scripts/verify/web-locks.mjs', folder, '--no-build', ...options]
    return await new Promise((resolve) => {
      execFile(process.execPath, args, { cwd: ROOT }, (error, stdout) =>
        resolve({ code: Number(error?.code ?? 0), lines: stdout.trimEnd().split('\n') }),
      )
    })
  }

  it('verify -- web-locks runs files of web-platform-tests on client.locks, also with workers', async () => {
    const { code, lines } = await verify('--match', 'all')
    assert.deepEqual([code, lines], [0, ['7 passed, 0 failed']])
  })

  it('verify -- web-locks also runs them behind Sentinels and in a cluster', async () => {
    const verified = ['sentinel', 'cluster'].map((topology) => verify('--topology', topology, '--match', 'all'))
    for (const { code, lines } of await Promise.all(verified)) {
      assert.deepEqual([code, lines], [0, ['7 passed, 0 failed']])
    }
  })

  it('verify -- web-locks reports what fails, and names the files that it leaves out', async () => {
    const { code, lines } = await verify()
    assert.equal(code, 1)
    const told = lines.filter((line) => !line.startsWith(' '))
    assert.deepEqual(told, [
      'FAILED failing.https.any.js: fails',
      'FAILED failing.https.any.js: a step fails',
      'FAILED failing.https.any.js: a promise rejects and nobody notices',
      'left out: missing.https.any.js needs the script resources/missing.js',
      'left out: page.https.html is a page',
      'left out: window.https.any.js needs a window',
      '10 passed, 3 failed',
    ])
  })

  it('verify -- web-locks without a folder of tests, or in an unknown topology, is exit code 2', async () => {
    assert.equal((await verify('--topology', 'ring')).code, 2)
    folder = join(folder, 'none')
    try {
      assert.equal((await verify()).code, 2)
    } finally {
      folder = dirname(folder)
    }
  })
})

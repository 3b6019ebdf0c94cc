/** `holdfast ui` as an operator starts it, on a real Redis. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse as parseYaml } from 'yaml'
import { hasDesktop, openBrowser } from '../../src/cli/ui/browser.js'
import { parseUiOptions } from '../../src/cli/ui/options.js'
import type { AuditReply, LockDetail, LocksReply, UnlockReply } from '../../src/dashboard/api.js'
import { connect, LeaseLostError } from '../../src/index.js'
import { codeBlocksOf } from '../docs/code-blocks.js'
import type { Child } from '../support/processes/child.js'
import { spawnHoldfast } from '../support/processes/holdfast-command.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

describe('holdfast ui', () => {
  let redis: RedisServer
  const started: Child[] = []
  before(async () => {
    redis = await startRedis()
  })
  afterEach(async () => {
    for (const child of started.splice(0)) await child[Symbol.asyncDispose]()
  })
  after(() => redis.stop())

  async function start(...args: string[]) {
    return await startWith({}, ...args)
  }

  async function startWith(more: Record<string, string>, ...args: string[]) {
    const child = spawnHoldfast(redis.url, ['ui', '--no-open', ...args], more)
    started.push(child)
    const printed = await waitUntil(() => /^(http:\S+\/)#token=(\S+)$/m.exec(child.stdout), {
      timeoutMs: 60_000,
      message: () => `the URL, but there is ${child.stdout}${child.stderr}`,
    })
    const [, url = '', token = ''] = printed
    const headers = { authorization: `Bearer ${token}` }
    const get = async <T>(path: string): Promise<T> => (await (await fetch(url + path, { headers })).json()) as T
    const unlock = async (body: object) =>
      await fetch(`${url}api/unlock`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'x-holdfast': '1', origin: new URL(url).origin },
        body: JSON.stringify(body),
      })
    return { child, url, token, get, unlock }
  }

  it('holdfast ui shows a held lock, releases it by force and records by whom; a signal ends it', async () => {
    await using client = await connect(redis.url)
    const { child, url, get, unlock } = await start()
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/)
    const untilAborted = ({ signal }: { signal: AbortSignal }) =>
      new Promise<unknown>((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)))
    const held = client.getLock('lock:nightly').withLock({ label: 'nightly report' }, untilAborted)
    const rejected = assert.rejects(held, LeaseLostError)
    const lock = await waitUntil(async () => (await get<LocksReply>('api/locks')).locks[0], { timeoutMs: 30_000 })
    assert.equal(lock.name, 'lock:nightly')
    const detail = await get<LockDetail>(`api/locks/${lock.id}`)
    const [holder] = detail.lock.holders
    assert.ok(holder)
    assert.ok(holder.holder.startsWith(client.id))
    const foreign = await unlock({ id: lock.id, holder: `${client.id}:999999`, reason: 'wrong' })
    const { outcome, holder: other } = (await foreign.json()) as UnlockReply
    assert.deepEqual([outcome, other], ['not-held', holder.holder])
    const reply = await unlock({ id: lock.id, holder: holder.holder, reason: 'INC-4711', anyway: true })
    assert.match(((await reply.json()) as UnlockReply).outcome, /^(released|freed)$/)
    await rejected
    const { entries } = await get<AuditReply>('api/audit')
    assert.deepEqual([entries[0]?.lock, entries[0]?.reason], ['lock:nightly', 'INC-4711'])
    assert.match(entries[0]?.by ?? '', /holdfast ui session [\da-f]{8}, from .*127\.0\.0\.1$/)
    process.kill(child.pid ?? 0, 'SIGTERM')
    assert.deepEqual(await child.exit, { code: 0, signal: null })
  })

  it('holdfast ui is read-only and warns on an address that others can reach', async () => {
    const { child, url, unlock } = await start('--host', '0.0.0.0', '--allow-host', 'dash.example')
    assert.match(child.stderr, /without TLS/)
    assert.match(child.stderr, /read-only/)
    assert.notEqual((await fetch(url)).status, 421)
    assert.equal((await unlock({ id: 'YQ', holder: 'a:1', reason: 'x' })).status, 404)
  })

  it('holdfast ui has another token at each start, and does not write it to stderr', async () => {
    const first = await start()
    const second = await start()
    assert.notEqual(first.token, second.token)
    const headers = { authorization: `Bearer ${first.token}` }
    assert.equal((await fetch(`${second.url}api/locks`, { headers })).status, 401)
    assert.ok(!first.child.stderr.includes(first.token))
  })

  it('holdfast ui lets Prometheus read the metrics with a token that stays, as in docs/metrics.md', async () => {
    const [block] = codeBlocksOf('docs/metrics.md').filter(({ language }) => language === 'yaml')
    const { scrape_configs: jobs } = parseYaml(block?.lines.join('\n') ?? '')
    const [{ metrics_path: path = '/metrics', authorization, static_configs: hosts }] = jobs
    assert.deepEqual([authorization.type ?? 'Bearer', typeof authorization.credentials_file], ['Bearer', 'string'])
    const token = '0123456789abcdef0123456789abcdef'
    const port = await freePort()
    const { child } = await startWith({ HOLDFAST_METRICS_TOKEN: token }, '--port', String(port))
    const url = `http://${hosts[0].targets[0].replace(/\d+$/, port)}`
    const headers = { authorization: `Bearer ${token}` }
    assert.match(await (await fetch(url + path, { headers })).text(), /^holdfast_fleet_deadlocks 0$/m)
    assert.equal((await fetch(`${url}/api/locks`, { headers })).status, 401)
    assert.ok(!`${child.stdout}${child.stderr}`.includes(token))
  })

  it('holdfast ui exits with 69 if the port is taken, and with 64 if an option makes no sense', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as { port: number }
    const busy = spawnHoldfast(redis.url, ['ui', '--no-open', '--port', String(port)])
    assert.equal((await busy.exit).code, 69)
    assert.match(busy.stderr, /cannot listen on 127\.0\.0\.1/)
    taken.close()
    const wrong = spawnHoldfast(redis.url, ['ui', '--port', '99999'])
    assert.equal((await wrong.exit).code, 64)
  })
})

describe('the options of holdfast ui', () => {
  const parse = (...args: string[]) => parseUiOptions(args, {})

  it('forced releases are allowed on loopback; elsewhere only if that was asked for', () => {
    assert.equal(parse()?.readOnly, false)
    assert.equal(parse('--read-only')?.readOnly, true)
    assert.equal(parse('--host', '::1')?.readOnly, false)
    assert.equal(parse('--host', '10.0.0.1')?.readOnly, true)
    assert.equal(parse('--host', '0.0.0.0', '--allow-unlock')?.readOnly, false)
  })

  it('the options of holdfast ui that contradict each other or are invalid are rejected', () => {
    for (const args of [
      ['--read-only', '--allow-unlock'],
      ['--port', '-1'],
      ['--port', 'http'],
      ['--allow-host', 'https://x'],
      ['--token', 'x'],
      ['lock:*'],
    ]) {
      assert.throws(() => parse(...args), { name: 'Error' }, args.join(' '))
    }
  })

  it('the metrics token comes from the environment, and a wrong one is not repeated', () => {
    const tokenOf = (HOLDFAST_METRICS_TOKEN: string) => parseUiOptions([], { HOLDFAST_METRICS_TOKEN })?.metricsToken
    assert.equal(tokenOf('0123456789abcdef0123456789abcdef'), '0123456789abcdef0123456789abcdef')
    assert.equal(tokenOf(''), undefined)
    for (const wrong of ['s3cret', 'with spaces with spaces with', 'x'.repeat(101)]) {
      assert.throws(
        () => tokenOf(wrong),
        ({ message }: Error) => !message.includes(wrong),
        wrong,
      )
    }
  })
})

describe('the browser', () => {
  it('the browser is given a file that only this user can read, and never the token', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-opener-'))
    const seen = join(folder, 'seen')
    const opener = join(folder, 'xdg-open')
    writeFileSync(opener, `#!/bin/sh\necho "$@" > ${seen}.part && mv ${seen}.part ${seen}\n`)
    chmodSync(opener, 0o755)
    const { PATH } = process.env
    process.env['PATH'] = `${folder}:${PATH}`
    try {
      const clean = openBrowser('http://127.0.0.1:1/#token=s3cret', 'linux')
      await waitUntil(() => existsSync(seen), { timeoutMs: 30_000 })
      const argument = readFileSync(seen, 'utf8').trim()
      assert.match(argument, /^file:\/\/\//)
      const file = fileURLToPath(argument)
      assert.ok(readFileSync(file, 'utf8').includes('http://127.0.0.1:1/#token=s3cret'))
      assert.equal(statSync(file).mode & 0o077, 0)
      clean()
      assert.ok(!existsSync(file))
    } finally {
      process.env['PATH'] = PATH
      rmSync(folder, { recursive: true })
    }
  })

  it('the browser is opened only where somebody sits in front of the machine', () => {
    assert.ok(hasDesktop({ DISPLAY: ':0' }, 'linux') && hasDesktop({}, 'darwin'))
    assert.ok(!hasDesktop({}, 'linux') && !hasDesktop({ SSH_CONNECTION: 'x', DISPLAY: ':0' }, 'linux'))
  })
})

/** Every way in that must be closed: the token, foreign names and pages, and what only pretends to be a path. */
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { after, before, beforeEach, describe, it } from 'node:test'
import { TokenGuard } from '../../src/dashboard/guard.js'
import { idOf } from '../../src/dashboard/rows.js'
import { isLoopback, type ServedDashboard, serveDashboard } from '../../src/dashboard/serve.js'
import { FakeFleet, heldLock } from '../support/dashboard.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

const fleet = new FakeFleet()
const DATA = [
  'api/locks',
  'api/locks/abc',
  'api/clients',
  'api/deadlocks',
  'api/jobs',
  'api/audit',
  'api/stream',
  'metrics',
]

function serve(
  options: { readOnly?: boolean; hosts?: string[]; metricsToken?: string } = {},
): Promise<ServedDashboard> {
  const { readOnly = false, hosts = [], metricsToken } = options
  const client = { fleet }
  return serveDashboard({ client, host: '127.0.0.1', port: 0, readOnly, hosts, user: 'alice', metricsToken })
}

/** `fetch` does not let a program choose `Host`. */
function raw(url: string, path: string, headers: Record<string, string>, method = 'GET', body = ''): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, method, headers }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

describe('a served dashboard', () => {
  let server: ServedDashboard
  before(async () => {
    server = await serve()
  })
  beforeEach(() => {
    fleet.present = [heldLock('lock:a')]
    fleet.unlocks.length = 0
  })
  after(() => server.close())

  const bearer = (token = server.token) => ({ authorization: `Bearer ${token}` })
  const origin = () => server.url.slice(0, -1)
  const unlockHeaders = () => ({
    ...bearer(),
    origin: origin(),
    'content-type': 'application/json',
    'x-holdfast': '1',
  })
  const wanted = JSON.stringify({ id: idOf('lock:a'), holder: 'c0ffee:1', reason: 'stuck' })
  const unlock = (headers: Record<string, string>, body = wanted): Promise<Response> =>
    fetch(`${server.url}api/unlock`, { method: 'POST', headers, body })

  it('the dashboard gives no data to a request without its token', async () => {
    for (const path of DATA) assert.equal((await fetch(server.url + path)).status, 401, path)
    const sent = await unlock({ origin: origin(), 'content-type': 'application/json', 'x-holdfast': '1' })
    assert.equal(sent.status, 401)
    assert.deepEqual(fleet.unlocks, [])
  })

  it('the dashboard does not take the token of an earlier start, from a cookie or from the URL', async () => {
    const earlier = await serve()
    await earlier.close()
    assert.notEqual(earlier.token, server.token)
    const { token } = server
    assert.equal((await fetch(`${server.url}api/locks`, { headers: bearer(earlier.token) })).status, 401)
    assert.equal((await fetch(`${server.url}api/locks`, { headers: { cookie: `token=${token}` } })).status, 401)
    assert.equal((await fetch(`${server.url}api/locks?token=${token}`)).status, 401)
    assert.equal((await fetch(`${server.url}api/locks`, { headers: bearer() })).status, 200)
  })

  it('the token for the metrics is admitted to them, and to nothing else', async () => {
    const metricsToken = '0123456789abcdef0123456789abcdef'
    await using other = disposable(await serve({ metricsToken }))
    const headers = { ...unlockHeaders(), ...bearer(metricsToken), origin: other.url.slice(0, -1) }
    assert.equal((await fetch(`${other.url}metrics`, { headers })).status, 200)
    assert.equal((await fetch(`${other.url}metrics`, { headers: bearer(other.token) })).status, 200)
    for (const path of DATA.filter((path) => path !== 'metrics')) {
      const { status } = await fetch(other.url + path, { headers })
      assert.ok(status === 401 || status === 429, `${path}: ${status}`)
    }
    assert.ok(!(await fetch(`${other.url}api/unlock`, { method: 'POST', headers, body: wanted })).ok)
    assert.deepEqual(fleet.unlocks, [])
    assert.equal((await fetch(`${server.url}metrics`, { headers: bearer(metricsToken) })).status, 401)
  })

  it('the dashboard has a token of 128 bits', () => {
    assert.equal(Buffer.from(server.token, 'base64url').length, 16)
  })

  it('the dashboard refuses other names than its own, against DNS rebinding', async () => {
    const { port } = new URL(server.url)
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      `127.0.0.1.evil.example:${port}`,
      ' ',
      'localhost@evil',
    ]) {
      for (const path of ['/', '/api/locks']) {
        const status = await raw(server.url, path, { host, ...bearer() })
        assert.ok(status === 421 || status === 400, `${path} for ${host}: ${status}`)
      }
    }
    for (const host of [`127.0.0.1:${port}`, `LOCALHOST:${port}`, `[::1]:${port}`, 'localhost:9000']) {
      assert.equal(await raw(server.url, '/api/locks', { host, ...bearer() }), 200, host)
    }
  })

  it('the dashboard replies to a further name only if it was allowed', async () => {
    await using other = disposable(await serve({ hosts: ['dash.example'] }))
    const headers = { host: 'dash.example', authorization: `Bearer ${other.token}` }
    assert.equal(await raw(other.url, '/api/locks', headers), 200)
    assert.equal(await raw(server.url, '/api/locks', headers), 421)
  })

  it('the dashboard releases nothing for a foreign page: it needs JSON, its header and its origin', async () => {
    const good = unlockHeaders()
    const without = (name: string) => Object.fromEntries(Object.entries(good).filter(([key]) => key !== name))
    const { port } = new URL(server.url)
    const refused: [number, Record<string, string>][] = [
      [415, { ...good, 'content-type': 'text/plain' }],
      [415, { ...good, 'content-type': 'application/x-www-form-urlencoded' }],
      [403, without('x-holdfast')],
      [403, without('origin')],
      [403, { ...good, origin: 'https://evil.example' }],
      [403, { ...good, origin: 'null' }],
      [403, { ...good, origin: 'http://localhost:1' }],
      [403, { ...good, origin: `http://127.0.0.1.evil.example:${port}` }],
    ]
    for (const [status, headers] of refused) {
      assert.equal((await unlock(headers)).status, status, JSON.stringify(headers))
    }
    assert.deepEqual(fleet.unlocks, [])
    assert.equal((await unlock(good)).status, 200)
    assert.equal(fleet.unlocks.length, 1)
  })

  it('the dashboard does not allow a foreign origin in a preflight', async () => {
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    const reply = await fetch(`${server.url}api/unlock`, { method: 'OPTIONS', headers })
    assert.equal(reply.headers.get('access-control-allow-origin'), null)
    assert.equal(reply.status, 401)
  })

  it('the dashboard names the user, the session and the address in the audit', async () => {
    await unlock(unlockHeaders())
    assert.match(fleet.unlocks[0]?.by ?? '', /^alice, holdfast ui session [\da-f]{8}, from (::ffff:)?127\.0\.0\.1$/)
    assert.ok(!fleet.unlocks[0]?.by.includes(server.token))
  })

  it('a read-only dashboard has no route that changes anything', async () => {
    await using other = disposable(await serve({ readOnly: true }))
    const headers = { ...unlockHeaders(), authorization: `Bearer ${other.token}`, origin: other.url.slice(0, -1) }
    const reply = await fetch(`${other.url}api/unlock`, { method: 'POST', headers, body: wanted })
    assert.equal(reply.status, 404)
    assert.deepEqual(fleet.unlocks, [])
  })

  it('the dashboard sends the security headers with every response, refusals included', async () => {
    for (const path of ['', 'assets/none.js', 'api/locks', 'nothing', 'api/audit']) {
      const { headers } = await fetch(server.url + path)
      const policy = headers.get('content-security-policy') ?? ''
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
      ]) {
        assert.ok(policy.includes(part), `${path}: ${part}`)
      }
      assert.ok(!/unsafe|\*/.test(policy))
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      assert.equal(headers.get('referrer-policy'), 'no-referrer')
    }
  })

  it('the dashboard serves no file outside of its page', async () => {
    const { host } = new URL(server.url)
    for (const path of [
      '/assets/../index.html',
      '/assets/..%2f..%2f..%2fpackage.json',
      '/assets/%2e%2e/%2e%2e/api.js',
      '//etc/passwd',
      '/assets/....//guard.js',
    ]) {
      const status = await raw(server.url, path, { host })
      assert.ok(status === 404 || status === 401, `${path}: ${status}`)
    }
  })

  it('the dashboard survives URLs and headers that make no sense', async () => {
    const { host } = new URL(server.url)
    for (const path of ['*', 'http://evil.example/', '/%', '/api/locks?cursor=-1&sort=constructor', '/api/locks/%00']) {
      const status = await raw(server.url, path, { host, ...bearer() })
      assert.ok(status < 500, `${path}: ${status}`)
    }
    assert.equal((await fetch(`${server.url}api/locks`, { headers: bearer() })).status, 200)
  })

  it('the dashboard rejects a body that is too long, no JSON, or lacks the holder or the reason', async () => {
    const body = (changes: object) => JSON.stringify({ ...JSON.parse(wanted), ...changes })
    for (const text of [
      body({ reason: 'x'.repeat(1_001) }),
      '{',
      'null',
      '[]',
      body({ holder: '' }),
      body({ holder: ['c0ffee:1'] }),
      body({ reason: ' ' }),
      body({ reason: undefined }),
      body({ graceMs: -1 }),
      body({ graceMs: 1e9 }),
      body({ quarantineMs: -1 }),
      body({ quarantineMs: 60_001 }),
      body({ quarantineMs: '5' }),
      body({ anyway: 'yes' }),
      body({ id: 7 }),
    ]) {
      assert.equal((await unlock(unlockHeaders(), text)).status, 400, text.slice(0, 80))
    }
    const long = await unlock(unlockHeaders(), body({ reason: 'x'.repeat(1024 * 1024) }))
    assert.equal(long.status, 413)
    assert.deepEqual(fleet.unlocks, [])
  })
})

describe('the guard of a token', () => {
  const ask = (token: string | undefined) =>
    new Request(
      'http://localhost/api/locks',
      token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } },
    )

  it('the guard replies 429 to the sixth wrong token of an address within a minute, and to no other', async () => {
    const clock = new FakeClock()
    const guard = new TokenGuard(clock)
    const wrong = (address: string) => guard.refuse(ask('wrong'), address)
    for (let count = 1; count <= 5; count++) assert.equal(wrong('10.0.0.1')?.status, 401)
    const sixth = wrong('10.0.0.1')
    assert.deepEqual([sixth?.status, sixth?.headers.get('retry-after')], [429, '60'])
    assert.equal(wrong('10.0.0.2')?.status, 401)
    await clock.advance(60_000)
    assert.equal(wrong('10.0.0.1')?.status, 401)
  })

  it('the guard lets the right token in during a flood of wrong ones, so nobody is locked out', () => {
    const guard = new TokenGuard(new FakeClock())
    for (let count = 0; count < 1_000; count++) guard.refuse(ask('wrong'), '127.0.0.1')
    assert.equal(guard.refuse(ask(guard.token), '127.0.0.1'), undefined)
  })

  it('the guard does not count requests without a token, which any page can make a browser send', () => {
    const guard = new TokenGuard(new FakeClock())
    for (let count = 0; count < 100; count++) assert.equal(guard.refuse(ask(undefined), '127.0.0.1')?.status, 401)
    assert.equal(guard.refuse(ask('wrong'), '127.0.0.1')?.status, 401)
  })

  it('the guard forgets the oldest of many addresses', () => {
    const guard = new TokenGuard(new FakeClock())
    for (let count = 0; count < 6; count++) guard.refuse(ask('wrong'), 'first')
    for (let count = 0; count < 1_000; count++) guard.refuse(ask('wrong'), `address ${count}`)
    assert.equal(guard.refuse(ask('wrong'), 'first')?.status, 401)
  })

  it('the guard refuses tokens of other lengths, and other schemes', () => {
    const guard = new TokenGuard(new FakeClock())
    for (const token of ['', guard.token.slice(1), `${guard.token}x`, 'x'.repeat(1_000)]) {
      assert.equal(guard.refuse(ask(token), '127.0.0.1')?.status, 401)
    }
    const basic = new Request('http://localhost/', { headers: { authorization: `Basic ${guard.token}` } })
    assert.equal(guard.refuse(basic, '127.0.0.1')?.status, 401)
  })
})

it('only the loopback addresses count as reachable from this machine alone', () => {
  for (const host of ['127.0.0.1', '127.8.9.1', 'localhost', '::1']) assert.ok(isLoopback(host), host)
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.evil.example', 'host', ''])
    assert.ok(!isLoopback(host), host)
})

function disposable(server: ServedDashboard): ServedDashboard & AsyncDisposable {
  return { ...server, [Symbol.asyncDispose]: () => server.close() }
}

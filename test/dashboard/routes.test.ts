import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import type { LockDetail, LocksReply } from '../../src/dashboard/api.js'
import { type Dashboard, type DashboardOptions, MountedDashboard } from '../../src/dashboard/dashboard.js'
import { idOf } from '../../src/dashboard/rows.js'
import { ConfigError } from '../../src/index.js'
import { FakeFleet, heldLock, holder, waiter } from '../support/dashboard.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(1)</script>',
  '\x1b[2J\u202e',
  'a/../b?c#d',
  '%00',
  '..',
]

let fleet: FakeFleet
const opened: Dashboard[] = []

beforeEach(() => {
  fleet = new FakeFleet()
})
after(() => {
  for (const dashboard of opened) dashboard.close()
})

function mount(options: Partial<DashboardOptions> = {}, pageFolder?: URL): Dashboard {
  const seams = { clock: new FakeClock(), ...(pageFolder && { pageFolder }) }
  const dashboard = new MountedDashboard({ client: { fleet }, authorize: () => true, ...options }, seams)
  opened.push(dashboard)
  return dashboard
}

async function get<T>(path: string, dashboard = mount()): Promise<T> {
  const reply = await dashboard.fetch(new Request(`http://localhost${path}`))
  assert.equal(reply.status, 200, await reply.clone().text())
  return (await reply.json()) as T
}

function post(path: string, body: unknown, headers: Record<string, string> = {}): Request {
  return new Request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-holdfast': '1', origin: 'http://localhost', ...headers },
    body: JSON.stringify(body),
  })
}

describe('the locks', () => {
  it('the locks come in pages of 200, sorted and filtered', async () => {
    fleet.present = Array.from({ length: 450 }, (_, index) =>
      heldLock(`lock:${String(index).padStart(3, '0')}`, { holders: [holder({ heldMs: index })] }),
    )
    const dashboard = mount()
    const names: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const reply: LocksReply = await get(`/api/locks?cursor=${cursor}`, dashboard)
      assert.ok(reply.locks.length <= 200)
      names.push(...reply.locks.map(({ name }) => name))
      cursor = reply.cursor
    }
    assert.deepEqual(
      names,
      fleet.present.map(({ name }) => name),
    )
    const oldest = await get<LocksReply>('/api/locks?sort=held&match=lock:0*', dashboard)
    assert.deepEqual([oldest.locks.length, oldest.locks[0]?.name, oldest.totals.held], [100, 'lock:099', 450])
    const newest = await get<LocksReply>('/api/locks?sort=-held', dashboard)
    assert.equal(newest.locks[0]?.name, 'lock:000')
  })

  it('the locks sort by waiters, and by lease with those without expiry first', async () => {
    fleet.present = [
      heldLock('a', { remainingLeaseMs: 5 }),
      heldLock('b', { remainingLeaseMs: Number.POSITIVE_INFINITY, otherListeners: 1 }),
      heldLock('c', { remainingLeaseMs: Number.POSITIVE_INFINITY, waiters: [waiter(), waiter()] }),
    ]
    const dashboard = mount()
    const order = async (sort: string) =>
      (await get<LocksReply>(`/api/locks?sort=${sort}`, dashboard)).locks.map(({ name }) => name).join('')
    assert.deepEqual([await order('lease'), await order('waiting'), await order('nonsense')], ['bca', 'cba', 'abc'])
  })

  it('the locks keep hostile names as data, in JSON and in URLs', async () => {
    fleet.present = HOSTILE.map((name) => heldLock(name, { holders: [holder({ label: name })] }))
    const dashboard = mount()
    const { locks } = await get<LocksReply>('/api/locks', dashboard)
    assert.deepEqual(new Set(locks.map(({ name }) => name)), new Set(HOSTILE))
    for (const { id, name } of locks) {
      const reply = await dashboard.fetch(new Request(`http://localhost/api/locks/${id}`))
      assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
      const detail = (await reply.json()) as LockDetail
      assert.deepEqual([detail.lock.name, detail.lock.holders[0]?.label], [name, name])
    }
  })

  it('a lock with a name of 1 MiB can be read and released by the hash of it', async () => {
    const name = 'x'.repeat(1024 * 1024)
    fleet.present = [heldLock(name)]
    const dashboard = mount()
    const { locks } = await get<LocksReply>('/api/locks', dashboard)
    assert.equal(locks[0]?.nameLength, name.length)
    const detail = await get<LockDetail>(`/api/locks/${locks[0]?.id}`, dashboard)
    assert.equal(detail.lock.name.length, 1_024)
    const wanted = { id: locks[0]?.id, holder: 'c0ffee:1', reason: 'stuck' }
    assert.equal((await dashboard.fetch(post('/api/unlock', wanted))).status, 200)
    assert.equal(fleet.unlocks[0]?.name, name)
  })

  it('the detail of a lock is looked up in Redis, and never older than its request', async () => {
    const dashboard = mount()
    await get('/api/locks', dashboard)
    fleet.present = [heldLock('lock:new')]
    const { lock, timeline } = await get<LockDetail>(`/api/locks/${idOf('lock:new')}`, dashboard)
    assert.deepEqual([lock.holders.length, lock.ageMs, timeline], [1, 0, []])
  })

  it('a hash that stands for no known lock is not found', async () => {
    const reply = await mount().fetch(new Request(`http://localhost/api/locks/~${'0'.repeat(64)}`))
    assert.equal(reply.status, 404)
  })
})

describe('a forced release', () => {
  const wanted = {
    id: idOf('lock:a'),
    holder: 'c0ffee:1',
    reason: 'INC-4711',
    graceMs: 500,
    anyway: true,
    quarantineMs: 9_000,
  }

  it('a forced release passes on the holder, the grace, the quarantine, the reason and who asked from where', async () => {
    const dashboard = mount({ authorize: () => ({ by: 'alice' }) })
    fleet.outcome = { outcome: 'not-held', holder: { holder: 'beef:2' } }
    const reply = await dashboard.fetch(post('/api/unlock', wanted), { address: '10.0.0.7' })
    assert.deepEqual(await reply.json(), { outcome: 'not-held', holder: 'beef:2' })
    const { id: _, ...options } = wanted
    assert.deepEqual(fleet.unlocks, [{ name: 'lock:a', ...options, by: 'alice from 10.0.0.7' }])
  })

  it('a forced release does not exist in a read-only dashboard', async () => {
    assert.equal((await mount({ readOnly: true }).fetch(post('/api/unlock', wanted))).status, 404)
    assert.deepEqual(fleet.unlocks, [])
  })

  it('a forced release by GET is refused with 405', async () => {
    const reply = await mount().fetch(new Request('http://localhost/api/unlock'))
    assert.deepEqual([reply.status, reply.headers.get('allow')], [405, 'POST'])
  })

  it('a forced release that cannot work says why', async () => {
    fleet.forceUnlock = async () => {
      throw new ConfigError('holder', 'x', 'a holder')
    }
    const reply = await mount().fetch(post('/api/unlock', wanted))
    assert.equal(reply.status, 400)
  })
})

describe('the other routes', () => {
  it('the routes list the clients with how much each holds', async () => {
    fleet.present = [heldLock('a'), heldLock('b')]
    const { clients } = await get<{ clients: { name: string; holds: number }[] }>('/api/clients')
    assert.deepEqual(
      clients.map(({ name, holds }) => [name, holds]),
      [['orders', 2]],
    )
  })

  it('the routes list forced releases', async () => {
    const time = '2026-01-01T00:00:00.000Z'
    const entry = { time, lock: 'a', holder: 'x:1', by: 'alice', outcome: 'freed' } as const
    fleet.entries = [entry]
    const { time: at, ...rest } = entry
    assert.deepEqual(await get('/api/audit'), { entries: [{ at, ...rest, reason: '' }] })
  })

  it('the routes reply 503 without a password when Redis fails', async () => {
    fleet.failure = Object.assign(new Error('WRONGPASS, with args beginning with: `tr0ub4dor`'), {
      command: { name: 'auth', args: ['tr0ub4dor'] },
    })
    const reply = await mount().fetch(new Request('http://localhost/api/locks'))
    const text = await reply.text()
    assert.equal(reply.status, 503)
    assert.ok(text.includes('WRONGPASS') && !text.includes('tr0ub4dor'), text)
  })

  it('the metrics export at most 50 series, with no name of a lock or holder', async () => {
    fleet.present = Array.from({ length: 500 }, (_, index) =>
      heldLock(`lock:${index}`, { kind: `kind ${index % 40}`, otherListeners: 1 }),
    )
    const dashboard = mount()
    const text = await (await dashboard.fetch(new Request('http://localhost/metrics'))).text()
    const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    assert.ok(series.length <= 50, `${series.length}`)
    assert.ok(series.every((line) => /^holdfast_fleet_\w+(\{(kind|about)="[\w -]+"\})? [\d.]+$/.test(line)))
    assert.ok(!/lock:\d|c0ffee/.test(text))
    const sum = (name: string) =>
      series.filter((line) => line.startsWith(name)).reduce((total, line) => total + Number(line.split(' ').at(-1)), 0)
    assert.deepEqual([sum('holdfast_fleet_held_locks'), sum('holdfast_fleet_waiters')], [500, 500])
    assert.ok(text.includes('# TYPE holdfast_fleet_deadlocks gauge'))
  })
})

describe('the page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-page-'))
  after(() => rmSync(folder, { recursive: true }))
  const pageFolder = pathToFileURL(`${folder}/`)

  it('the page says how to build it if it is missing', async () => {
    const reply = await mount({}, new URL('none/', pageFolder)).fetch(new Request('http://localhost/'))
    assert.equal(reply.status, 503)
    assert.match(await reply.text(), /npm run build/)
  })

  it('the page is served without authorization; only names with a hash are cached for good', async () => {
    mkdirSync(join(folder, 'assets'))
    writeFileSync(join(folder, 'index.html'), '<!doctype html>')
    writeFileSync(join(folder, 'secret.txt'), 'not an asset')
    for (const file of ['app-AB12CD34.js', 'app-AB12CD34.css', 'plain.js'])
      writeFileSync(join(folder, 'assets', file), '')
    const dashboard = mount({ authorize: () => false }, pageFolder)
    const headersOf = async (path: string) => {
      const reply = await dashboard.fetch(new Request(`http://localhost${path}`))
      const { headers, status } = reply
      return [status, headers.get('content-type')?.split(';')[0], headers.get('cache-control')]
    }
    assert.deepEqual(await headersOf('/'), [200, 'text/html', 'no-cache'])
    const forever = 'public, max-age=31536000, immutable'
    assert.deepEqual(await headersOf('/assets/app-AB12CD34.js'), [200, 'text/javascript', forever])
    assert.deepEqual(await headersOf('/assets/app-AB12CD34.css'), [200, 'text/css', forever])
    assert.deepEqual(await headersOf('/assets/plain.js'), [200, 'text/javascript', 'no-cache'])
    for (const path of ['/assets/secret.txt', '/assets/index.html', '/assets/none.js']) {
      assert.equal((await headersOf(path))[0], 404, path)
    }
  })
})

describe('a health check', () => {
  it('a health check by HEAD gets what GET gets, without a body; OPTIONS says what is allowed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-page-'))
    writeFileSync(join(folder, 'index.html'), '<!doctype html>')
    const dashboard = mount({ authorize: () => false }, pathToFileURL(`${folder}/`))
    const ask = (method: string): Promise<Response> => dashboard.fetch(new Request('http://localhost/', { method }))
    const [got, head, options] = [await ask('GET'), await ask('HEAD'), await ask('OPTIONS')]
    assert.deepEqual([head.status, await head.text()], [200, ''])
    assert.deepEqual([...head.headers], [...got.headers])
    assert.deepEqual([options.status, options.headers.get('allow')], [204, 'GET, HEAD, OPTIONS'])
    assert.equal((await dashboard.fetch(new Request('http://localhost/api/locks', { method: 'HEAD' }))).status, 401)
    rmSync(folder, { recursive: true })
  })
})

describe('authorize', () => {
  const locks = new Request('http://localhost/api/locks')

  it('authorize lets nothing merely truthy in', async () => {
    for (const result of [false, undefined, null, 'yes', 1, {}, { by: 7 }]) {
      const dashboard = mount({ authorize: () => result as boolean })
      assert.equal((await dashboard.fetch(locks)).status, 401, JSON.stringify(result))
    }
  })

  it('authorize may reply itself, for example with a redirect to a login', async () => {
    const dashboard = mount({ authorize: async () => Response.redirect('http://localhost/login', 302) })
    assert.equal((await dashboard.fetch(locks)).headers.get('location'), 'http://localhost/login')
  })

  it('authorize lets nobody in when it throws; its message is logged without passwords, and not sent', async (context) => {
    const { mock } = context.mock.method(process, 'emitWarning', () => {})
    const dashboard = mount({
      authorize: () => {
        const command = { name: 'auth', args: ['tr0ub4dor'] }
        throw Object.assign(new Error('the sessions are unreachable with tr0ub4dor'), { command })
      },
    })
    const reply = await dashboard.fetch(locks)
    assert.equal(reply.status, 500)
    assert.ok(!(await reply.text()).includes('sessions'))
    const [warning] = mock.calls[0]?.arguments ?? []
    assert.ok(warning instanceof Error)
    assert.equal(warning.message, 'the sessions are unreachable with …')
    assert.ok(!`${warning.stack}${JSON.stringify(warning)}`.includes('tr0ub4dor'))
  })

  it('authorize is required, and options that make no sense are refused', () => {
    const wrong = [
      { authorize: undefined },
      { client: {} },
      { basePath: 'locks' },
      { basePath: '/locks/' },
      { readOnly: 'yes' },
      { hosts: ['http://x/'] },
      { readonly: true },
    ]
    for (const options of wrong) {
      assert.throws(() => mount(options as unknown as Partial<DashboardOptions>), ConfigError, JSON.stringify(options))
    }
  })
})

describe('a mounted dashboard', () => {
  const wanted = { id: idOf('lock:a'), holder: 'c0ffee:1', reason: 'stuck' }

  async function expectWorks(url: string): Promise<void> {
    fleet.present = [heldLock('lock:a')]
    const moved = await fetch(url, { redirect: 'manual' })
    const location = moved.headers.get('location') ?? ''
    assert.deepEqual([moved.status, new URL(location, url).href], [308, `${url}/`])
    assert.equal(new URL(location, 'https://example.com/prefix/locks').href, 'https://example.com/prefix/locks/')
    const { locks } = (await (await fetch(`${url}/api/locks`)).json()) as LocksReply
    assert.equal(locks[0]?.name, 'lock:a')
    const headers = { 'content-type': 'application/json', 'x-holdfast': '1', origin: new URL(url).origin }
    const reply = await fetch(`${url}/api/unlock`, { method: 'POST', headers, body: JSON.stringify(wanted) })
    assert.deepEqual([reply.status, fleet.unlocks.length], [200, 1])
    assert.equal((await fetch(`${url}/elsewhere`)).status, 404)
  }

  async function listening(server: Server): Promise<string> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  it('a mounted dashboard works in node:http', async () => {
    const server = createServer(mount({ basePath: '/locks' }).node)
    await expectWorks(`${await listening(server)}/locks`)
    server.close()
  })

  it('a mounted dashboard works in Express, with a parser before it and without', async () => {
    for (const parsers of [[], [express.json()]]) {
      fleet = new FakeFleet()
      const app = express()
      for (const parser of parsers) app.use(parser)
      app.use('/locks', mount({ authorize: (_, { incoming }) => incoming !== undefined }).node)
      const server = createServer(app)
      await expectWorks(`${await listening(server)}/locks`)
      server.close()
    }
  })

  it('a mounted dashboard works in Fastify', async () => {
    const dashboard = mount({ basePath: '/locks' })
    const app = fastify()
    await app.register((scope, _options, done) => {
      // The dashboard reads the body itself.
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null))
      scope.all('/locks', (request, reply) => dashboard.node(request.raw, reply.hijack().raw))
      scope.all('/locks/*', (request, reply) => dashboard.node(request.raw, reply.hijack().raw))
      done()
    })
    await expectWorks(`${await app.listen({ port: 0, host: '127.0.0.1' })}/locks`)
    await app.close()
  })

  it('a mounted dashboard works in Hono', async () => {
    const dashboard = mount({ basePath: '/locks' })
    const app = new Hono()
    app.all('/locks/*', (context) => dashboard.fetch(context.req.raw))
    fleet.present = [heldLock('lock:a')]
    assert.equal((await app.request('http://localhost/locks/api/locks')).status, 200)
    const reply = await app.request(post('/locks/api/unlock', wanted))
    assert.deepEqual([reply.status, fleet.unlocks.length], [200, 1])
  })

  it('a closed dashboard ends, and leaves the client open', async () => {
    const dashboard = mount()
    await get('/api/locks', dashboard)
    dashboard.close()
    assert.equal((await dashboard.fetch(new Request('http://localhost/api/locks'))).status, 503)
    assert.equal((await fleet.clients()).length, 1)
  })
})

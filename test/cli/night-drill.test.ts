/**
 * It is 3 a.m., and the tools are all that one has: whatever they say of a healthy, a stopped, a killed, a blocked and a Java
 * holder, of semaphores, of a deadlock, and to a Redis user with few rights, is compared with what these processes are.
 */
import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { after, before, describe, it } from 'node:test'
import { type Client, connect } from '../../src/index.js'
import { SECRET, withUser } from '../support/doctor.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { endOf, spawnHoldfast } from '../support/processes/holdfast-command.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const SERVICE = new URL('../support/processes/drill-process.js', import.meta.url)
const TAKER = new URL('../support/nested-locks.js', import.meta.url)
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f:41'
const HOST = hostname()
/** How long the commands wait for replies. Silent clients make each of them last as long. */
const PATIENCE = ['--timeout', '1500ms']

/** Durations and times of day, which differ. */
function withoutTimes(text: string): string[] {
  const spoken = text
    .replace(/\b(?:\d+[dhm] )?\d+(?:\.\d)?(?:ms|s|m|h)\b/g, '<t>')
    .replace(/\b\d\d:\d\d:\d\d(?:\.\d+)?/g, '<clock>')
  return spoken.trimEnd().split('\n')
}

/** What a child process holds, and is. */
interface Holder {
  readonly child: Child
  readonly holder: string
  readonly lock: string
  readonly name: string
  readonly label: string
}

describe('a night drill', { concurrency: 1 }, () => {
  let server: RedisServer
  let client: Client
  let healthy: Holder
  let stopped: Holder
  let killed: Holder
  let blocked: Holder
  let one: Holder
  let other: Holder
  const children: Child[] = []

  before(async () => {
    server = await startRedis()
    client = await connect({ url: server.url, inspection: { name: 'drill' } })
    await server.admin.multi().hset('java', JAVA, 1).pexpire('java', 600_000).exec()
    await client.getSemaphore('plain').trySetPermits(1)
    await client.getSemaphore('plain').acquire()
    healthy = await started('run', 'holdfast', 'report', 'nightly report')
    killed = await started('run', 'holdfast', 'import', 'import of orders', '--lease', '10m')
    stopped = await started('service', 'export', 'export', 'export to S3')
    blocked = await started('service', 'billing', 'invoice', 'invoices')
    await Promise.all([healthy, killed, stopped, blocked].map(isDescribed))
    await killed.child.stop()
    stopped.child.freeze()
    blocked.child.send({ blockMs: 600_000 })
  })

  after(async () => {
    await Promise.all(children.map((child) => child.stop()))
    await client.close()
    await server.stop()
  })

  function holdfast(args: string[], url = server.url): Child {
    const child = spawnHoldfast(url, args, { npm_package_name: '' })
    children.push(child)
    return child
  }

  async function run(args: string[], url?: string) {
    const { code, stdout, stderr } = await endOf(holdfast(args, url))
    assert.equal(stderr, '')
    return { code, text: stdout, lines: withoutTimes(stdout) }
  }

  async function holderOf(lock: string): Promise<string> {
    const isHeld = async () => (await client.fleet.inspect(lock)).holders[0]?.holder ?? false
    return await waitUntil(isHeld, { timeoutMs: 30_000 })
  }

  async function started(
    how: 'run' | 'service',
    name: string,
    lock: string,
    label: string,
    ...options: string[]
  ): Promise<Holder> {
    // `cat` ends with its parent.
    if (how === 'run') {
      const child = holdfast(['run', lock, '--label', label, ...options, '--', 'cat'])
      return { child, holder: await holderOf(lock), lock, name, label }
    }
    const child = spawnChild(SERVICE, [server.url, name, lock, label])
    children.push(child)
    return { child, holder: (await child.nextMessage<{ holder: string }>()).holder, lock, name, label }
  }

  async function isDescribed({ lock }: Holder): Promise<void> {
    const isSo = async () => (await client.fleet.inspect(lock, { timeoutMs: 5_000 })).holders[0]?.label !== undefined
    await waitUntil(isSo, { timeoutMs: 30_000 })
  }

  const processOf = ({ name, child }: Holder): string => `${name}@${HOST} pid ${child.pid}`

  /** Repeats a command until all living processes have replied in time: this machine may stand still too. */
  async function told(args: string[], url?: string) {
    const silent = new Set([stopped, blocked].map(processOf))
    const doubt = /! (\d) clients? did not reply: (.*)/
    return await waitUntil(
      async () => {
        const said = await run([...args, ...PATIENCE], url)
        const named = doubt.exec(said.text.replace(/\n {2}(?! )/g, ' '))?.[2]?.split(', ') ?? []
        return named.length === 2 && named.every((one) => silent.has(one)) && said
      },
      { timeoutMs: 60_000, message: `${args} names the two silent clients` },
    )
  }

  it('holdfast ls shows of each lock in the night drill who holds it, how that process is, and for what', async () => {
    const { code, text } = await told(['ls'])
    assert.equal(code, 2, 'two clients did not reply')
    const rows = new Map(text.split('\n').map((line) => [line.split(/ {2,}/)[0], line.split(/ {2,}/).slice(1)]))
    const rowOf = (lock: string) => rows.get(lock)?.map((cell) => withoutTimes(cell)[0])
    for (const [of, sign] of [
      [healthy, '●'],
      [stopped, '○'],
      [blocked, '○'],
      [killed, '✗'],
    ] as const) {
      const waiting = sign === '○' ? '≥0' : '0'
      assert.deepEqual(rowOf(of.lock), ['lock', '<t>', processOf(of), sign, '<t>', waiting, of.label])
    }
    assert.deepEqual(rowOf('java'), ['lock', '?', 'Redisson 10488e73:41', '?', '<t>', '0'])
    assert.deepEqual(rowOf('plain'), ['semaphore', 'no permit free', '0'])
    assert.match(text, /\n6 locks · clients: ● 1 responding {2}○ 2 silent {2}✗ 1 disconnected {2}\? 1 unlisted\n/)
  })

  it('holdfast who says of each holder in the night drill what its process is, and nothing else', async () => {
    const meanings = {
      '●': 'responding',
      '○': 'silent: connected, but its event loop is blocked, its process is stopped, or it is cut off',
      '✗': 'disconnected: nobody listens on its inbox, so its process is gone or cut off',
    }
    for (const [of, sign] of [
      [healthy, '●'],
      [stopped, '○'],
      [blocked, '○'],
      [killed, '✗'],
    ] as const) {
      const { code, lines } = await told(['who', of.lock])
      assert.equal(code, 0)
      const version = lines[2]?.match(/ \d+\.\d+\.\d+/)?.[0] ?? ''
      assert.deepEqual(lines.slice(0, -1), [
        `${of.lock}: lock, lease <t> left`,
        `  held, count 1, by ${of.holder}`,
        `    who     ${of.name}${version}, pid ${of.child.pid} on ${HOST}`,
        `            ${sign} ${meanings[sign]}`,
        '    since   <clock> (<t>)',
        `    for     ${of.label}`,
        `    break   holdfast unlock ${of.lock} ${sign === '●' ? '' : '--anyway '}--holder ${of.holder}`,
        '  no waiters among what can be seen',
      ])
    }
    const java = await told(['who', 'java'])
    assert.equal(java.lines[3], '            ? unlisted: it does not describe itself, and cannot be notified')
    assert.equal(java.lines[4], '    since   not known')
    const semaphore = await told(['who', 'plain'])
    assert.deepEqual(
      [semaphore.code, ...semaphore.lines.slice(0, 2)],
      [0, 'plain: semaphore, no permit free', '  Redis does not record who has its permits.'],
    )
  })

  it('holdfast deadlocks says in the night drill that there is none among what replies, then finds the one', async () => {
    const none = await told(['deadlocks'])
    assert.deepEqual([none.code, none.lines[0]], [2, 'no deadlock among what can be seen'])
    const taker = async (outer: string, inner: string): Promise<Holder> => {
      const child = spawnChild(TAKER, [server.url, outer, inner])
      children.push(child)
      const { holder } = await child.nextMessage<{ holder: string }>(undefined, 60_000)
      return { child, holder, lock: outer, name: `taker-${outer}`, label: `${outer}, then ${inner}` }
    }
    await server.admin.multi().hset('busy', JAVA, 1).pexpire('busy', 60_000).exec()
    ;[one, other] = await Promise.all([taker('a', 'b'), taker('b', 'a')])
    await server.admin.del('busy')
    for (const { child } of [one, other]) child.send({ go: true })
    const found = await waitUntil(
      async () => {
        const said = await told(['deadlocks'])
        return said.code === 1 && said
      },
      { timeoutMs: 60_000 },
    )
    const lineOf = (of: Holder, next: string) =>
      `  ${of.lock} is held for <t> by ${processOf(of)} ● (${of.label}), waits for ${next}`
    assert.deepEqual(found.lines.slice(0, 6), [
      'Deadlock of 2 holds: it does not end by itself',
      lineOf(one, 'b'),
      `      holdfast unlock a --holder ${one.holder}`,
      lineOf(other, 'a'),
      `      holdfast unlock b --holder ${other.holder}`,
      'Take these locks in the same order everywhere, or together with getMultiLock.',
    ])
  })

  it('a Redis user that may read no lock of the night drill is told so, and what that hides', async () => {
    await server.admin.call(
      'ACL',
      'SETUSER',
      'limited',
      'reset',
      'on',
      `>${SECRET}`,
      '+@all',
      '&*',
      '~holdfast_client:*',
    )
    const url = withUser(server, 'limited', SECRET)
    for (const [command, first] of [
      ['ls', '0 locks · clients: '],
      ['deadlocks', 'no deadlock among what can be seen'],
    ]) {
      const { code, text } = await told([command as string], url)
      assert.equal(code, 2)
      assert.ok(text.startsWith(first as string), text)
      assert.match(text, /! this Redis user may not read \d+ keys, which may be locks: /)
    }
  })

  it('holdfast unlock says what it did to each holder of the night drill, and the locks are as it says', async () => {
    const unlock = async ({ lock, holder }: Pick<Holder, 'lock' | 'holder'>, ...more: string[]) =>
      await run(['unlock', lock, '--holder', holder, '--yes', '--grace', '100ms', '--reason', 'drill', ...more])
    const isHeld = async (lock: string) => (await server.admin.exists(lock)) === 1
    const outcomes: [Pick<Holder, 'lock' | 'holder'>, string][] = [
      [stopped, 'nothing has changed: its holder did not react within <t>. --anyway would free the lock'],
      [killed, 'nothing has changed: nobody listens on the inbox of its holder. --anyway would free the lock'],
      [
        { lock: 'java', holder: JAVA },
        'nothing has changed: nobody listens on the inbox of its holder. --anyway would free the lock',
      ],
    ]
    for (const [of, sentence] of outcomes) {
      assert.deepEqual(await unlock(of).then(({ code, lines }) => [code, lines]), [75, [`<clock>  ${sentence}`]])
      assert.ok(await isHeld(of.lock))
      const freed = await unlock(of, '--anyway')
      assert.deepEqual([freed.code, freed.lines], [0, ['<clock>  freed: its holder did not react within <t>']])
      assert.ok(!(await isHeld(of.lock)))
    }
    const released = await run(['unlock', 'report', '--holder', healthy.holder, '--yes', '--grace', '30s'])
    assert.deepEqual([released.code, released.lines], [0, ['<clock>  released by its holder within <t>']])
    assert.ok(!(await isHeld('report')))
    assert.equal((await healthy.child.exit).code, 76, 'its program was ended, and its exit code says so')
    const broken = await run(['unlock', 'a', '--holder', one.holder, '--yes', '--grace', '30s'])
    assert.equal(broken.code, 0)
    await other.child.nextMessage(({ took }) => took === 'a')
    const gone = await unlock(healthy)
    assert.deepEqual([gone.code, gone.lines], [1, [`report is not held by ${healthy.holder}: it is free`]])
    const audit = await client.fleet.audit()
    assert.deepEqual([...new Set(audit.map(({ outcome }) => outcome))].sort(), [
      'freed',
      'released',
      'silent',
      'unreachable',
    ])
  })
})

/** A fleet as the server of the dashboard describes it, in a fixed state. */
import type {
  AuditRow,
  ClientsReply,
  DeadlocksReply,
  History,
  HolderRow,
  LockDetail,
  LockRow,
  Segment,
  WaiterRow,
} from '../../src/dashboard/api.js'
import type { JobInfo } from '../../src/fleet/job-info.js'
import type { ClientInfo, HolderStatus } from '../../src/fleet/lock-info.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND

export interface Fleet {
  locks: LockRow[]
  clients: ClientsReply['clients']
  deadlocks: DeadlocksReply
  jobs: JobInfo[]
  audit: AuditRow[]
  history: History
  timelineOf(lock: LockRow): Segment[]
}

export function idOf(name: string): string {
  return Buffer.from(name).toString('base64url')
}

export function client(name: string, host: string, pid = 1): ClientInfo {
  const id = `${Buffer.from(`${name}${host}${pid}00000000`).toString('hex').slice(0, 8)}-d47f-43e2-b3c3-05ba401dfa57`
  return { id, name, host, pid, version: '2.3.1' }
}

export function holder(status: HolderStatus, from?: ClientInfo, more: Partial<HolderRow> = {}): HolderRow {
  const known = from === undefined ? {} : { client: from, heldMs: 42 * SECOND }
  return {
    holder: `${from?.id ?? '10488e73-94d1-4c8e-8f8a-3b2f6f0e9a11'}:41`,
    holdCount: 1,
    status,
    seenMs: 40.2 * SECOND,
    ...known,
    ...more,
  }
}

export function lock(name: string, holders: HolderRow[], more: Partial<LockRow> = {}): LockRow {
  return {
    id: idOf(name),
    name,
    nameLength: name.length,
    kind: 'lock',
    remainingLeaseMs: 24.1 * SECOND,
    holders,
    waiters: [],
    otherListeners: 0,
    doubts: [],
    ageMs: 0,
    ...more,
  }
}

const NOW = Date.UTC(2026, 10, 23, 3, 14)

function job(name: string, state: JobInfo['state'], more: Partial<JobInfo> = {}): JobInfo {
  return { name, state, overdueMs: 0, lateMs: 0, label: `web-1: ${name}`, readAt: NOW, ...more }
}

export function waiter(from: ClientInfo, more: Partial<WaiterRow> = {}): WaiterRow {
  return { client: from, status: 'responding', chain: [], waitedMs: 12 * SECOND, ...more }
}

const orders = client('orders', 'orders-7f9c', 17)
const checkout = client('checkout', 'chk-1', 8)
const reports = client('reports', 'rep-5d8', 1)
const billing = client('billing', 'bill-2c4', 31)
const search = client('search', 'srch-9b1', 22)

const STACK = `at nightly (/app/src/reports/nightly.js:41:9)
at async Scheduler.run (/app/src/scheduler.js:88:5)`

/** Each status once, a deadlock, readers, a permanent key, and enough healthy locks to scroll. */
export function demoFleet(): Fleet {
  const a = holder('responding', orders, { holder: `${orders.id}:42`, heldMs: 8.2 * SECOND, label: 'move stock' })
  const b = holder('responding', checkout, { holder: `${checkout.id}:77`, heldMs: 8.4 * SECOND, label: 'pay order' })
  const special = [
    lock(
      'lock:nightly',
      [holder('responding', reports, { heldMs: 134 * MINUTE, label: 'nightly report', stack: STACK })],
      {
        waiters: [
          waiter(checkout, { position: 1, waitedMs: 28 * SECOND, givesUpInMs: 32 * SECOND, label: 'export' }),
          waiter(orders, {
            position: 2,
            waitedMs: 9 * SECOND,
            chain: [{ id: idOf('lock:order:1001'), lock: 'lock:order:1001', holder: a.holder }],
          }),
          waiter(billing, { position: 3, waitedMs: 3 * SECOND, givesUpInMs: 57 * SECOND, status: 'silent' }),
        ],
      },
    ),
    lock('lock:stock:7', [holder('disconnected', billing, { heldMs: 31.8 * MINUTE, label: 'refund', mode: 'write' })], {
      kind: 'read-write lock',
      remainingLeaseMs: 662 * SECOND,
      waiters: [waiter(checkout, { waitedMs: 28 * SECOND, givesUpInMs: 14 * SECOND })],
    }),
    lock('lock:invoice:88', [holder('silent', search, { heldMs: 95 * SECOND, label: 'index invoices' })], {
      remainingLeaseMs: 9.4 * SECOND,
      waiters: [waiter(orders, { waitedMs: 61 * SECOND })],
    }),
    lock('lock:order:1001', [holder('unlisted')], { remainingLeaseMs: 21.9 * SECOND, otherListeners: 1 }),
    lock('lock:transfer:a', [a], {
      waiters: [
        waiter(checkout, {
          holder: b.holder,
          waitedMs: 8 * SECOND,
          chain: [{ id: idOf('lock:transfer:b'), lock: 'lock:transfer:b', holder: b.holder }],
        }),
      ],
    }),
    lock('lock:transfer:b', [b], {
      waiters: [
        waiter(orders, {
          holder: a.holder,
          waitedMs: 8 * SECOND,
          givesUpInMs: 41 * SECOND,
          chain: [{ id: idOf('lock:transfer:a'), lock: 'lock:transfer:a', holder: a.holder }],
        }),
      ],
    }),
    lock(
      'catalog',
      [reports, orders, checkout].map((one, index) =>
        holder('responding', one, { mode: 'read', heldMs: 640 * (index + 1) }),
      ),
      { kind: 'read-write lock' },
    ),
    lock(
      'migration',
      [holder('unlisted', undefined, { holder: '7c1e02aa-0b5d-4a53-9c0e-d1f2a3b4c5d6:1', seenMs: 14 * MINUTE })],
      { remainingLeaseMs: null },
    ),
  ]
  return {
    locks: [...special, ...healthyLocks(40)],
    clients: [
      { ...orders, status: 'responding', holds: 12, lossesLastHour: 0 },
      { ...checkout, status: 'responding', holds: 9, lossesLastHour: 2 },
      { ...reports, status: 'responding', holds: 1, lossesLastHour: 0 },
      { ...billing, status: 'disconnected', holds: 1 },
      { ...search, status: 'silent', holds: 1 },
    ],
    deadlocks: {
      cycles: [
        {
          locks: ['lock:transfer:a', 'lock:transfer:b'].map((name) => ({ id: idOf(name), name })),
          owners: [a, b],
          endsInMs: 41 * SECOND,
        },
      ],
      suspected: [],
      doubts: [],
    },
    jobs: [
      job('backup', 'failed', { startedAt: NOW - 40 * MINUTE, ranMs: 4 * MINUTE, exitCode: 1 }),
      job('invoices', 'killed', {
        everyMs: 60 * MINUTE,
        startedAt: NOW - 50 * MINUTE,
        succeededAt: NOW - 110 * MINUTE,
      }),
      job('cleanup', 'succeeded', {
        ...{ everyMs: 60 * MINUTE, overdueMs: 134 * MINUTE, startedAt: NOW - 195 * MINUTE },
        ...{ succeededAt: NOW - 194 * MINUTE, ranMs: MINUTE, exitCode: 0 },
      }),
      job('mirror', 'running', {
        everyMs: 60 * MINUTE,
        lateMs: 25 * MINUTE,
        startedAt: NOW - 5 * MINUTE,
        ranMs: 5 * MINUTE,
      }),
      job('export', 'never-started', { everyMs: 60 * MINUTE }),
    ],
    audit: [
      {
        at: '2026-11-23T03:14:33.801Z',
        lock: 'lock:nightly',
        holder: `${reports.id}:1`,
        by: 'anna@ops-1',
        reason: 'INC-4711',
        outcome: 'released',
      },
      {
        at: '2026-11-20T17:02:09.120Z',
        lock: 'lock:stock:7',
        holder: `${billing.id}:9`,
        by: 'ben@ops-1',
        reason: 'INC-4698, process was killed',
        outcome: 'freed',
      },
    ],
    history: demoHistory(),
    timelineOf: demoTimeline,
  }
}

/** @param turn changes every duration, label and holder */
export function healthyLocks(count: number, turn = 0): LockRow[] {
  const clients = [orders, checkout, reports, search]
  return Array.from({ length: count }, (_, index) => {
    const from = clients[(index + turn) % clients.length] ?? orders
    const more = {
      heldMs: 300 + ((index * 137 + turn * 61) % 9_000),
      label: index % 3 === 0 ? `order ${index + turn}` : 'sync',
    }
    return lock(
      `lock:order:${2000 + index}`,
      [holder('responding', from, { holder: `${from.id}:${index}`, ...more })],
      {
        remainingLeaseMs: 20_000 + ((index * 311 + turn * 97) % 10_000),
        waiters: (index + turn) % 19 === 5 ? [waiter(orders)] : [],
      },
    )
  })
}

function demoHistory(): History {
  const agoMs = Array.from({ length: 900 }, (_, index) => (900 - index) * SECOND)
  const wave = (base: number, height: number, length: number) =>
    agoMs.map((_, i) => Math.round(base + height * (Math.sin(i / length) + Math.sin(i / 7.3) / 3) ** 2))
  return {
    agoMs,
    held: wave(40, 6, 90),
    contended: wave(4, 3, 70),
    waiters: wave(5, 9, 120),
    oldestMs: agoMs.map((ago) => 134 * MINUTE - ago),
    waitP95Ms: wave(4_000, 9_000, 80),
    newHolds: wave(12, 20, 100),
  }
}

function demoTimeline(row: LockRow): Segment[] {
  const present = row.holders.map(
    (one): Segment => ({
      role: 'holds',
      who: one.holder,
      ...(one.client ? { client: one.client } : {}),
      ...(one.label === undefined ? {} : { label: one.label }),
      status: one.status,
      startedAgoMs: one.heldMs ?? one.seenMs,
      endedAgoMs: null,
    }),
  )
  const waiting = row.waiters.map(
    (one, index): Segment => ({
      role: 'waits',
      who: one.holder ?? `${one.client?.id} ${index}`,
      ...(one.client ? { client: one.client } : {}),
      status: one.status,
      startedAgoMs: one.waitedMs ?? 0,
      endedAgoMs: null,
    }),
  )
  if (row.name !== 'lock:stock:7') return [...present, ...waiting]
  const past: Segment[] = [
    {
      role: 'holds',
      who: 'p1',
      client: checkout,
      status: 'responding',
      startedAgoMs: 14 * MINUTE,
      endedAgoMs: 11 * MINUTE,
    },
    {
      role: 'waits',
      who: 'p2',
      client: orders,
      status: 'responding',
      startedAgoMs: 12 * MINUTE,
      endedAgoMs: 11 * MINUTE,
    },
    {
      role: 'holds',
      who: 'p2',
      client: orders,
      status: 'responding',
      startedAgoMs: 11 * MINUTE,
      endedAgoMs: 6 * MINUTE,
    },
    {
      role: 'holds',
      who: '10488e73-94d1-4c8e-8f8a-3b2f6f0e9a11:26',
      status: 'unlisted',
      startedAgoMs: 6 * MINUTE,
      endedAgoMs: 5 * MINUTE,
    },
  ]
  return [...past, ...present.map((one) => ({ ...one, startedAgoMs: 5 * MINUTE })), ...waiting]
}

export function detailOf(fleet: Fleet, id: string): LockDetail | undefined {
  const row = fleet.locks.find((one) => one.id === id)
  return row && { lock: row, timeline: fleet.timelineOf(row), mayBreak: true }
}

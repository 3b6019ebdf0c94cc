/** A fleet as on the pages: the same locks, holders and waiters at a fixed time, for the commands that print them. */
import { deadlocks } from '../../../src/cli/operate/deadlocks.js'
import { jobs } from '../../../src/cli/operate/jobs.js'
import { ls } from '../../../src/cli/operate/ls.js'
import { type FleetCommand, parseFleetOptions } from '../../../src/cli/operate/options.js'
import { top } from '../../../src/cli/operate/top.js'
import { unlock } from '../../../src/cli/operate/unlock.js'
import type { FleetView, ForceRequest, Session } from '../../../src/cli/operate/view.js'
import { watch } from '../../../src/cli/operate/watch.js'
import { who } from '../../../src/cli/operate/who.js'
import { Terminal } from '../../../src/cli/terminal.js'
import { confirm } from '../../../src/fleet/deadlocks.js'
import type { Doubt } from '../../../src/fleet/doubts.js'
import type { JobInfo } from '../../../src/fleet/job-info.js'
import type { ClientInfo, HolderInfo, LockInfo, LockList, WaiterInfo } from '../../../src/fleet/lock-info.js'
import { lockList } from './lock-list.js'

const COMMANDS = { ls, who, top, watch, unlock, deadlocks, jobs }
const START = Date.UTC(2026, 10, 23, 3, 14, 33, 120)

const REPORTS = client('9ab1c5d2-6e0f-4b7a-9c3d-22f0401dfa57', 'reports', 'rep-5d8', 1, '1.8.0')
const ORDERS = client('05f2b8c4-d47f-43e2-b3c3-05ba401dfa57', 'orders', 'orders-7f9c', 1, '2.3.1')
const BILLING = client('7d21e0b6-90aa-4c1f-b6e2-4f05401dfa57', 'billing', 'bill-2', 31, '1.0.7')
const CHECKOUT = client('0f3c77aa-1d5e-4f6b-8a90-6be1401dfa57', 'checkout', 'chk-1', 8, '4.0.2')
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'

export function client(id: string, name: string, host: string, pid: number, version: string): ClientInfo {
  return { id, name, host, pid, version }
}

export function lockInfo(
  name: string,
  holders: HolderInfo[],
  waiters: WaiterInfo[],
  other: Partial<LockInfo> = {},
): LockInfo {
  const common = { kind: 'lock', remainingLeaseMs: 24_100, otherListeners: 0, doubts: [] }
  return { name, holders, waiters, ...common, ...other }
}

export function holder(of: ClientInfo, owner: number, other: Partial<HolderInfo> = {}): HolderInfo {
  return { holder: `${of.id}:${owner}`, holdCount: 1, client: of, status: 'responding', ...other }
}

export function waiter(of: ClientInfo, wait: number, waitedMs: number, other: Partial<WaiterInfo> = {}): WaiterInfo {
  return { client: of, wait, waitedMs, chain: [], status: 'responding', ...other }
}

export const LOCKS: readonly LockInfo[] = [
  lockInfo(
    'lock:nightly',
    [holder(REPORTS, 1, { heldMs: 8_073_000, label: 'nightly report' })],
    [
      waiter(CHECKOUT, 4, 28_000, { position: 1, givesUpInMs: 2_000 }),
      waiter(CHECKOUT, 5, 12_500, { position: 2 }),
      waiter(BILLING, 2, 3_100, { position: 3, label: 'invoices' }),
    ],
  ),
  lockInfo('lock:order:1001', [{ holder: `${JAVA}:41`, holdCount: 1, status: 'unlisted' }], [], {
    remainingLeaseMs: 21_900,
    otherListeners: 1,
  }),
  lockInfo(
    'lock:stock:7',
    [
      holder(ORDERS, 42, {
        holder: `${ORDERS.id}:42:write`,
        mode: 'write',
        status: 'disconnected',
        heldMs: 31_840,
        label: 'refund',
        trace: '4bf92f3577b34da6a3ce929d0e0e4736',
      }),
    ],
    [waiter(CHECKOUT, 77, 28_000, { givesUpInMs: 2_000, label: 'order 1001' })],
    { kind: 'read-write lock', remainingLeaseMs: 662_000, otherListeners: 1 },
  ),
  lockInfo(
    'lock:account:17',
    [holder(CHECKOUT, 77, { heldMs: 12_000, label: 'transfer 17 to 42' })],
    [waiter(BILLING, 9, 11_300, { chain: [{ lock: 'lock:account:42', holder: `${BILLING.id}:43` }] })],
  ),
  lockInfo(
    'lock:account:42',
    [holder(BILLING, 43, { heldMs: 11_800, label: 'transfer 42 to 17' })],
    [
      waiter(CHECKOUT, 81, 11_400, {
        givesUpInMs: 3_200,
        chain: [{ lock: 'lock:account:17', holder: `${CHECKOUT.id}:77` }],
      }),
    ],
  ),
]

export class FakeFleet implements FleetView {
  locksNow: readonly LockInfo[]
  /** What a list of all locks does not say. */
  doubts: readonly Doubt[] = []
  /** Those that `forceUnlock` was called with. */
  readonly orders: ({ name: string } & ForceRequest)[] = []
  outcome: Awaited<ReturnType<FleetView['forceUnlock']>>['outcome'] = 'released'
  /** How long a release takes, ms of the fake clock. */
  tookMs = 681
  now = START
  /** After each look. */
  onLook: () => void = () => {}
  /** Whether messages of locks are heard. */
  isLive = true
  /** Sends a message to those who listen. */
  publish: () => void = () => {}

  constructor(locks: readonly LockInfo[] = LOCKS) {
    this.locksNow = locks
  }

  async inspect(name: string): Promise<LockInfo> {
    const free = lockInfo(name, [], [], { kind: 'unknown', remainingLeaseMs: 0 })
    const found = this.locksNow.find((lock) => lock.name === name) ?? free
    this.onLook()
    return found
  }

  subscribeToLock(_name: string, onHint: () => void) {
    this.publish = onHint
    return { isLive: this.isLive, leave: () => (this.publish = () => {}) }
  }

  locks(options: { match: string | undefined; contended: boolean }): LockList {
    return lockList(this.#locks(options), this.doubts)
  }

  async *#locks({ match = '*', contended }: { match: string | undefined; contended: boolean }) {
    for (const lock of this.locksNow) {
      const isWaitedFor = lock.waiters.length + lock.otherListeners > 0
      if (lock.name.startsWith(match.replace(/\*$/, '')) && (!contended || isWaitedFor)) yield lock
    }
    this.onLook()
  }

  async deadlocks() {
    this.onLook()
    return confirm(this.locksNow, this.locksNow, this.doubts)
  }

  jobsNow: readonly JobInfo[] = []

  async jobs() {
    return this.jobsNow
  }

  async forceUnlock(name: string, order: ForceRequest) {
    this.orders.push({ name, ...order })
    this.now += this.tookMs
    return { outcome: this.outcome }
  }
}

/**
 * Runs a command of the command line in this process.
 * @param typed  what somebody at the terminal types; undefined: there is no terminal
 */
export async function runOn(fleet: FakeFleet, args: string[], typed?: string, signal = new AbortController().signal) {
  const [name, ...rest] = args as [FleetCommand, ...string[]]
  let output = ''
  const write = (text: string): boolean => {
    output += text
    return true
  }
  const options = parseFleetOptions(name, rest, {})
  if (!options) throw new Error('help')
  const ask = async (question: string): Promise<string> => {
    output += `${question}${typed}\n`
    return typed ?? ''
  }
  const session: Session = {
    fleet,
    options,
    terminal: new Terminal({ write, isTTY: false } as unknown as NodeJS.WriteStream, {}),
    signal,
    ask: typed === undefined ? undefined : ask,
    trace: async (holders) => new Map(holders.slice(0, 1).map((holder) => [holder, '10.0.4.17:48122'])),
    now: () => fleet.now,
  }
  const exitCode = await COMMANDS[name](session).catch((error: Error & { exitCode?: number }) => {
    if (error.exitCode === undefined) throw error
    output += `${error.message}\n`
    return error.exitCode
  })
  return { exitCode, output }
}

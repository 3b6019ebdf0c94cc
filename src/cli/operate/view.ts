// The session that the commands for operators share: client, terminal and options.
import type { Deadlocks } from '../../fleet/deadlocks.js'
import type { JobInfo } from '../../fleet/job-info.js'
import type { LockListening } from '../../fleet/lock-channels.js'
import type { LockInfo, LockList } from '../../fleet/lock-info.js'
import type { ForceOutcome } from '../../locks/breaking/audit.js'
import type { Terminal } from '../terminal.js'
import type { FleetOptions } from './options.js'

/** The part of `client.fleet` that the commands use. */
export interface FleetView {
  inspect(name: string, options: { timeoutMs: number }): Promise<LockInfo>
  subscribeToLock(name: string, onHint: () => void): LockListening
  locks(options: { match: string | undefined; contended: boolean; timeoutMs: number }): LockList
  deadlocks(options: { timeoutMs: number }): Promise<Deadlocks>
  jobs(): Promise<readonly JobInfo[]>
  forceUnlock(name: string, order: ForceRequest): Promise<{ outcome: ForceOutcome }>
}

export interface ForceRequest {
  holder: string
  graceMs: number
  by: string
  reason: string | undefined
  anyway: boolean
  quarantineMs: number
}

/** The client, terminal and options of a command. */
export interface Session {
  readonly fleet: FleetView
  readonly options: FleetOptions
  readonly terminal: Terminal
  /** Finds out from which addresses holders of the lock are renewed, by holder. @throws {Failure} Redis refuses that */
  readonly trace: (holders: readonly string[]) => Promise<ReadonlyMap<string, string>>
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  /** Shows a question and returns the line that is typed. Undefined: nobody is there to type. */
  readonly ask: ((question: string) => Promise<string>) | undefined
  /** Epoch ms. */
  readonly now: () => number
}

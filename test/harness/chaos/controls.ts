import { runChaos } from './run.js'
import { CONTROL_SEMAPHORES, CONTROLS, type Control } from './sabotage.js'
import { SingleTopology } from './single.js'
import type { Finding } from './verdict.js'

const SECONDS = 4
const LEASE_MS = 1_000
const PROVE_MS = 3_000
const QUIET_MS = 2_500

/** A broken lock, and what its verdict had to say. */
export interface Tried extends Control {
  readonly isRed: boolean
  /** The first finding. */
  readonly found: string | undefined
}

/** A short run in which one process breaks a lock for each verdict: each has to be found. */
export async function runControls(seed: number, note: (text: string) => void): Promise<Tried[]> {
  await using topology = await SingleTopology.start()
  const { findings } = await runChaos(
    {
      ...{ seconds: SECONDS, seed, workers: 2, tasks: 1, faults: [], everyMs: 0, semaphores: CONTROL_SEMAPHORES },
      ...{ leaseMs: LEASE_MS, proveMs: PROVE_MS, quietMs: QUIET_MS, isControl: true, withJava: false, note },
    },
    topology,
  )
  return CONTROLS.map((control) => tried(control, findings))
}

/** The finding must be of the right verdict, about the right lock. */
export function tried(control: Control, findings: readonly Finding[]): Tried {
  const { lock, verdict } = control
  const found = findings.find((one) => one.verdict === verdict && (one.lock === lock || one.what.includes(lock)))
  return { ...control, isRed: found !== undefined, found: found?.what }
}

// Runs the checks in order.
import { messageOf } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'
import { type Check, type Result, resultOf } from './check.js'
import { clusterChecks } from './checks/cluster.js'
import { connectionChecks, REACHABLE } from './checks/connection.js'
import { endpointChecks } from './checks/endpoint.js'
import { heldLockChecks } from './checks/held-locks.js'
import { lockChecks } from './checks/locks.js'
import { memoryChecks } from './checks/memory.js'
import { persistenceChecks } from './checks/persistence.js'
import { replicationChecks } from './checks/replication.js'
import { rightsChecks } from './checks/rights.js'
import { serverChecks } from './checks/server.js'
import { type Finding, note, STATUSES, warning } from './finding.js'
import type { Server } from './server.js'
import type { DeploymentUnderTest } from './target.js'

/** In the order in which they are reported. */
export const CHECKS: readonly Check[] = [
  ...connectionChecks,
  ...endpointChecks,
  ...serverChecks,
  ...memoryChecks,
  ...persistenceChecks,
  ...replicationChecks,
  ...clusterChecks,
  ...lockChecks,
  ...rightsChecks,
  ...heldLockChecks,
]

/** Runs all checks in order. A check that fails reports that; if Redis is unreachable, there is only the first. */
export async function runChecks(deployment: DeploymentUnderTest): Promise<Result[]> {
  const results: Result[] = []
  for (const check of CHECKS) {
    const servers = check.isOnce ? deployment.servers.slice(0, 1) : deployment.servers
    const all = await Promise.all(
      servers.map(async (server) => ({ server, finding: await runCheck(check, server, deployment) })),
    )
    const findings = all.flatMap(({ server, finding }) => (finding ? [{ server, finding }] : []))
    if (findings.length === 0) continue
    const result = resultOf(check, summaryOf(findings))
    results.push(result)
    if (result.id === REACHABLE.id && result.status === 'problem') break
  }
  return results
}

async function runCheck(check: Check, server: Server, deployment: DeploymentUnderTest): Promise<Finding | undefined> {
  try {
    return await check.run(server, deployment)
  } catch (error) {
    return notChecked(messageOf(withoutSecrets(error)))
  }
}

function notChecked(error: string): Finding {
  const message = `could not be checked: ${error.trim()}`
  if (/\bNOPERM\b/.test(error)) {
    const [, command = 'info'] = /run the '([\w|-]+)'/.exec(error) ?? []
    return note(message, `run the doctor as a user that may, or allow it: ACL SETUSER <user> +${command}`)
  }
  if (/unknown|not (allowed|supported|available)|disabled|unsupported/i.test(error)) {
    return note(message, 'if this service does not support it, check the setting in its console')
  }
  return warning(message, 'check that Redis replies, and run the doctor again')
}

interface ServerFinding {
  readonly server: Server
  readonly finding: Finding
}

/** The worst finding, with its servers unless all of them have the same. */
function summaryOf(findings: readonly ServerFinding[]): Finding {
  const status = STATUSES.findLast((one) => findings.some(({ finding }) => finding.status === one))
  const worst = findings.filter(({ finding }) => finding.status === status)
  const [{ finding: first }] = worst as [ServerFinding]
  if (worst.length === findings.length && worst.every(({ finding }) => finding.message === first.message)) return first
  const message = worst.map(({ server, finding }) => `${server.address}: ${finding.message}`).join('; ')
  return { ...first, message }
}

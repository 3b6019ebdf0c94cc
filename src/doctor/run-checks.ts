import { withoutSecrets } from '../util/secrets.js'
import { type Check, type Result, resultOf } from './check.js'
import { clusterChecks } from './checks/cluster.js'
import { connectionChecks, REACHABLE } from './checks/connection.js'
import { dataChecks } from './checks/data.js'
import { lockChecks } from './checks/locks.js'
import { replicationChecks } from './checks/replication.js'
import { serverChecks } from './checks/server.js'
import { type Finding, isWorse, note, warning } from './finding.js'
import type { Server } from './server.js'
import type { DeploymentUnderTest } from './target.js'

/** In the order in which they are told. */
export const CHECKS: readonly Check[] = [
  ...connectionChecks,
  ...serverChecks,
  ...dataChecks,
  ...replicationChecks,
  ...clusterChecks,
  ...lockChecks,
]

/** All checks, one after the other; one that cannot be made says so. Without answers there is only the first. */
export async function runChecks(deployment: DeploymentUnderTest): Promise<Result[]> {
  const results: Result[] = []
  for (const check of CHECKS) {
    const servers = check.isOnce ? deployment.servers.slice(0, 1) : deployment.servers
    const seen = await Promise.all(
      servers.map(async (server) => ({ server, finding: await look(check, server, deployment) })),
    )
    const findings = seen.flatMap(({ server, finding }) => (finding ? [{ server, finding }] : []))
    if (findings.length === 0) continue
    const result = resultOf(check, summaryOf(findings))
    results.push(result)
    if (result.id === REACHABLE.id && result.outcome === 'problem') break
  }
  return results
}

async function look(check: Check, server: Server, deployment: DeploymentUnderTest): Promise<Finding | undefined> {
  try {
    return await check.run(server, deployment)
  } catch (raw) {
    const error = withoutSecrets(raw)
    return unseen(error instanceof Error ? error.message : String(error))
  }
}

function unseen(message: string): Finding {
  const found = `could not be looked at: ${message.trim()}`
  if (/\bNOPERM\b/.test(message)) {
    const [, command = 'info'] = /run the '([\w|-]+)'/.exec(message) ?? []
    return note(found, `run the doctor as a user who may, or allow it: ACL SETUSER <user> +${command}`)
  }
  if (/unknown|not (allowed|supported|available)|disabled|unsupported/i.test(message)) {
    return note(found, 'nothing, if this service does not offer it: look at the setting where you administer it')
  }
  return warning(found, 'see that Redis answers, and ask again')
}

interface Seen {
  readonly server: Server
  readonly finding: Finding
}

/** The worst of them, with the servers it is about if there are others. */
function summaryOf(seen: readonly Seen[]): Finding {
  const worst = seen.reduce((worst, { finding }) => (isWorse(finding.outcome, worst.outcome) ? finding : worst), {
    outcome: 'ok',
    found: '',
  } as Finding)
  const of = seen.filter(({ finding }) => finding.outcome === worst.outcome)
  const [first] = of as [Seen]
  if (of.length === seen.length && of.every(({ finding }) => finding.found === first.finding.found))
    return first.finding
  return { ...first.finding, found: of.map(({ server, finding }) => `${server.address}: ${finding.found}`).join('; ') }
}

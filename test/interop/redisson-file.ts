import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atProcessExit } from '../support/processes/process-exit.js'
import { WATCHDOG_MS } from './backend.js'

/** For both server sections. Reads go to masters: a replica may lag behind what the case checks. */
const SERVERS = `
  readMode: MASTER
  subscriptionMode: MASTER
  scanInterval: 1000
  timeout: 3000
  retryAttempts: 4
  retryDelay: !<org.redisson.config.EqualJitterDelay> {baseDelay: PT0.2S, maxDelay: PT1S}
  masterConnectionMinimumIdleSize: 2
  masterConnectionPoolSize: 16
  slaveConnectionMinimumIdleSize: 1
  slaveConnectionPoolSize: 16
  subscriptionConnectionMinimumIdleSize: 1
  subscriptionConnectionPoolSize: 8
`

const TOP = `
codec: !<org.redisson.client.codec.StringCodec> {}
threads: 4
nettyThreads: 4
lockWatchdogTimeout: ${WATCHDOG_MS}
checkLockSyncedSlaves: true
slavesSyncTimeout: 3000
`

/** A configuration as Redisson documents it, in a file that both sides read as it is. */
export class RedissonFile {
  readonly path: string
  readonly #dir: string
  readonly #keepOnExit: () => void

  /** @param own  the special lines of the section, each indented by two */
  constructor(section: 'clusterServersConfig' | 'sentinelServersConfig', own: string) {
    this.#dir = mkdtempSync(join(tmpdir(), 'holdfast-redisson-'))
    this.#keepOnExit = atProcessExit(() => rmSync(this.#dir, { recursive: true, force: true }))
    this.path = join(this.#dir, 'redisson.yaml')
    writeFileSync(this.path, `${section}:\n${own}${SERVERS}${TOP}`)
  }

  remove(): void {
    this.#keepOnExit()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}

/** Lines of a list of addresses. */
export function listed(urls: readonly string[]): string {
  return urls.map((url) => `    - "${url}"`).join('\n')
}

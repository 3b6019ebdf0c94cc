// A port from a URL or a configuration.
import type { RedisPort } from '../adapters/port.js'
import type { Deployment } from './deployment.js'

/** Opens ioredis for a URL that was checked. */
export async function openUrl(url: string, isLazy = false): Promise<RedisPort> {
  const [servers, { DISCONNECT_TIMEOUT_MS, ownedIoredis }] = await openers()
  return ownedIoredis(await servers.openUrl(url, DISCONNECT_TIMEOUT_MS, isLazy))
}

/** Opens ioredis for a configuration. */
export async function openDeployment(deployment: Deployment): Promise<RedisPort> {
  const [servers, { DISCONNECT_TIMEOUT_MS, ownedIoredis }] = await openers()
  const { addresses, mode, pingIntervalMs, scanIntervalMs } = deployment
  const client = await servers.openDeployment(deployment, DISCONNECT_TIMEOUT_MS)
  // Sentinels and clusters tell which replicas there are.
  const isList = mode === 'masterSlave' || mode === 'replicated'
  return ownedIoredis(client, { pingIntervalMs, scanIntervalMs, isReplicated: isList && addresses.length > 1 })
}

async function openers() {
  return await Promise.all([import('./connecting/servers.js'), import('../adapters/ioredis/port.js')])
}

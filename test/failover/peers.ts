import type { RedisServer } from '../support/redis-server.js'
import { monotonicMs } from './record.js'
import { APP, PEER } from './ways.js'

/** Whatever a server has acknowledged outlives its process. */
const KEEP_DATA = ['--appendonly', 'yes', '--appendfsync', 'no']
/** Redis takes nodes that connect from other loopback addresses than 127.0.0.1 for strangers; they could not reach it. */
const CONFIG = `
protected-mode no
user ${APP.username} on nopass ~* &* +@all
user ${PEER} on nopass ~* &* +@all
masteruser ${PEER}
masterauth none
`

/** Of servers whose clients log in as `APP`, and whose replicas and Sentinels do as `PEER`. */
export const SERVERS = { args: KEEP_DATA, config: CONFIG } as const

/**
 * A partition: replicas and Sentinels no longer reach this server, clients do. Whoever fails to log in would go on as the
 * default user.
 */
export async function cutOff({ admin }: RedisServer): Promise<void> {
  await admin.call('ACL', 'SETUSER', PEER, 'off')
  await admin.call('ACL', 'SETUSER', 'default', 'off')
  await admin.call('CLIENT', 'KILL', 'USER', PEER)
}

export async function reconnect({ admin }: RedisServer): Promise<void> {
  await admin.call('ACL', 'SETUSER', 'default', 'on')
  await admin.call('ACL', 'SETUSER', PEER, 'on')
}

/** When the server took a write, or false. */
export async function takesWrites({ admin }: RedisServer): Promise<number | false> {
  const took = await admin.set('{storm}:observed', '1').catch(() => undefined)
  return took === 'OK' && monotonicMs()
}

import type { RedisServer } from '../support/redis-server.js'
import { APP, PEER } from './ways.js'

/** Configuration of servers whose clients log in as `APP`, and whose replicas and Sentinels do as `PEER`. */
export const PEERS_AND_APP = `
user ${APP.username} on nopass ~* &* +@all
user ${PEER} on nopass ~* &* +@all
masteruser ${PEER}
masterauth none
`

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

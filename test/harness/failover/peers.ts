import { ADMIN } from '../../support/rights.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import { monotonicMs } from './record.js'
import { APP, PEER } from './ways.js'

/** Makes acknowledged writes survive the process of a server. */
export const KEEP_DATA: readonly string[] = ['--appendonly', 'yes', '--appendfsync', 'no']

/** Lets clients log in as `APP` and `users`, and the server log in to its master as `PEER`, also after a restart. */
export async function addUsers({ admin }: RedisServer, users: readonly string[]): Promise<void> {
  for (const name of [APP.username, PEER, ...users]) {
    await admin.call('ACL', 'SETUSER', name, 'on', 'nopass', '~*', '&*', '+@all')
  }
  await admin.config('SET', 'masterauth', APP.password)
  await admin.config('SET', 'masteruser', PEER)
  await admin.config('REWRITE')
}

/** Makes replicas and Sentinels log in again, as their current user. */
export async function logInAnew({ admin }: RedisServer): Promise<void> {
  await admin.call('CLIENT', 'KILL', 'TYPE', 'replica')
  await admin.call('CLIENT', 'KILL', 'USER', ADMIN)
}

/**
 * A partition: replicas and Sentinels no longer reach this server, clients do. A peer whose login fails would continue as
 * the default user.
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

/** When the server accepted a write, or false. @param key in whose slot it is */
export async function takesWrites({ admin }: RedisServer, key = 'storm'): Promise<number | false> {
  const took = await admin.set(`{${key.replace(/[{}]/g, '')}}:observed`, '1').catch(() => undefined)
  return took === 'OK' && monotonicMs()
}

// Servers without INFO, clusters that do not say where their nodes are.
import { messageOf } from '../errors.js'

/** A cluster replies to CLUSTER SLOTS without hosts, which no Redis client takes for that of the node it asked. */
export function addressesUnknown(): Error {
  return new Error(
    'the cluster does not say where its nodes are: set cluster-preferred-endpoint-type to ip or hostname',
  )
}

/**
 * Whether the server has no INFO, as at some hosts. ioredis asks by it whether the server is loading, and without a reply
 * connects again and again, unless `enableReadyCheck` is false. Nodes of a cluster it does not even connect again.
 */
export function lacksInfo(error: unknown): boolean {
  return /^ERR unknown command.*\binfo\b/i.test(messageOf(error))
}

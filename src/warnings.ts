/** What clients warn of. The codes are in errors.ts. */
import { clientWarning, messageOf } from './errors.js'

export function subscriptionRefused(channel: string, cause: unknown): Error {
  const message =
    `The channel ${JSON.stringify(channel)} cannot be subscribed to (${messageOf(cause)}): waiters are woken later, or poll. ` +
    'If Redis refuses it, allow this user SUBSCRIBE and the channels &redisson_* and &holdfast_inbox:* in its ACL'
  return clientWarning('SUBSCRIBE_REFUSED', message, { cause })
}

export function signInRefused(cause: unknown): Error {
  const message =
    `Redis refuses the user or password of this client (${messageOf(cause)}), and it reconnects in vain: set the ones that are ` +
    'valid in the options of the Redis client that you passed, or let credentialsProvider or credentialsResolver return them'
  return clientWarning('SIGN_IN_REFUSED', message, { cause })
}

/** @param name  of the lock or synchronizer that was released */
export function publishRefused(name: string): Error {
  const message =
    `Redis released ${JSON.stringify(name)} but refused to wake its waiters, which now wait until they poll or the lease ` +
    'ends: allow PUBLISH and the channels &redisson_* and &holdfast_inbox:* in the ACL of this user'
  return clientWarning('PUBLISH_REFUSED', message)
}

export function inspectionRefused(cause: unknown): Error {
  const message =
    `Redis does not let this client say what it holds (${messageOf(cause)}), so others see only its holder ids: allow the keys ` +
    'holdfast_client:* and the channels &holdfast_inbox:* and &holdfast_reply:* in the ACL of this user, or set inspection: false'
  return clientWarning('INSPECTION_REFUSED', message, { cause })
}

export function renewalRefused(cause: unknown): Error {
  const message = `Redis refuses to renew what this client holds (${messageOf(cause)}): it will be lost when its lease ends`
  return clientWarning('RENEWAL_REFUSED', message, { cause })
}

export function crossSlotRefused(cause: unknown): Error {
  const message =
    'Redis refuses keys of different slots in one command (CROSSSLOT): it is a cluster node, or a proxy in front of one. From ' +
    'now on each lock is sent in its own command, and renewals are batched by slot. Connect with clusterServersConfig or a ' +
    'cluster client, unless the proxy is the only way in'
  return clientWarning('CROSSSLOT_REFUSED', message, { cause })
}

export function severalServers(): Error {
  const message =
    'Behind the address of Redis are several servers, each with some of the keys: a proxy that shards, such as twemproxy. From ' +
    'now on each lock is sent in its own command. A multi-lock takes its locks one after the other. `holdfast doctor` says ' +
    'what else such a proxy cannot do'
  return clientWarning('SHARDS_FOUND', message)
}

export function closedBesideHandler(signal: string): Error {
  const message =
    `The client closes on ${signal}, and what other handlers of ${signal} let finish can take no more locks: pass ` +
    '`before` to closeOnSignals, a function that resolves when that is finished'
  return clientWarning('CLOSED_BESIDE_HANDLER', message)
}

/** @param file  that opened them */
export function manyClients(count: number, file: string): Error {
  const message =
    `${count} clients of one Redis are open, all opened by ${file}: one is enough. If each edit loads that module again, ` +
    'as with Next.js, keep the client: globalThis.holdfast ??= await connect(…). Otherwise close() those you no longer need'
  return clientWarning('MANY_CLIENTS', message)
}

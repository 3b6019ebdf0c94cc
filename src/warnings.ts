/** Every warning: its code and its text. */
import { messageOf } from './errors.js'
import { durationOf } from './util/duration-text.js'

type WarningCode =
  | 'PUBLISH_REFUSED'
  | 'SUBSCRIBE_REFUSED'
  | 'TURN_QUEUE_REFUSED'
  | 'WAIT_REFUSED'
  | 'CROSSSLOT_REFUSED'
  | 'SHARDS_FOUND'
  | 'RENEWAL_REFUSED'
  | 'INSPECTION_REFUSED'
  | 'SIGN_IN_REFUSED'
  | 'FENCING_TOKENS_WENT_BACK'
  | 'CONFIG_KEYS_IGNORED'
  | 'WATCHDOG_THREAD_ENDED'
  | 'CONNECTION_REPLACED'
  | 'REPLIES_MIXED_UP'
  | 'RELEASE_FAILED'
  | 'HOLD_DROPPED'
  | 'CLOSED_BESIDE_HANDLER'
  | 'MANY_CLIENTS'
  | 'CAMPAIGN_FAILED'
  | 'LEADER_STILL_RUNNING'
  | 'AUDIT_FAILED'

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
    `The client closes on ${signal}, so work that other ${signal} handlers are finishing can no longer take locks: pass ` +
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

/** @param code  whose connection it is not: `CONNECTION_REPLACED`, or that of another command: `REPLIES_MIXED_UP` */
export function connectionReplaced(code: 'CONNECTION_REPLACED' | 'REPLIES_MIXED_UP', why: string): Error {
  return clientWarning(code, `${why}, so Holdfast opened another connection and uses it`)
}

export function keysIgnored(ignored: readonly { path: string; reason: string }[]): Error {
  const lines = ignored.map(({ path, reason }) => `  ${path}: ${reason}`)
  const message = `Holdfast ignores these keys of the configuration:\n${lines.join('\n')}`
  return Object.assign(clientWarning('CONFIG_KEYS_IGNORED', message), { keys: ignored })
}

export function waitRefused(cause: unknown): Error {
  const message =
    `Redis does not let this client ask whether replicas have its locks (${messageOf(cause)}): it continues without ` +
    'acknowledgement, and a failover may admit a second holder. Allow INFO and WAIT, or set checkLockSyncedSlaves to false'
  return clientWarning('WAIT_REFUSED', message, { cause })
}

export function turnQueueRefused(cause: unknown): Error {
  const message =
    `Redis denies this user the turn queue (${messageOf(cause)}), so a release wakes every waiting client instead of one: ` +
    'allow the keys holdfast_turn_queue:* in the ACL of this user'
  return clientWarning('TURN_QUEUE_REFUSED', message, { cause })
}

export function auditFailed(lockName: string, outcome: string, key: string, cause: unknown): Error {
  const message = `The forced release of ${JSON.stringify(lockName)} (${outcome}) could not be recorded in ${key}: ${messageOf(cause)}`
  return clientWarning('AUDIT_FAILED', message, { cause })
}

export function campaignFailed(election: string, cause: unknown): Error {
  const message = `Cannot campaign in the election ${JSON.stringify(election)} (${messageOf(cause)}); retrying`
  return clientWarning('CAMPAIGN_FAILED', message, { cause })
}

/** @param forMs  since leadership ended */
export function leaderStillRunning(election: string, forMs: number): Error {
  const message =
    `onElected of the election ${JSON.stringify(election)} has not ended ${forMs} ms after its signal aborted: until it ends, ` +
    'this process does not campaign again, and a leader that resigned keeps the others out'
  return clientWarning('LEADER_STILL_RUNNING', message)
}

export function tokensWentBack(lockName: string, to: string, seen: string): Error {
  const message =
    `The fencing tokens of lock ${JSON.stringify(lockName)} went back from ${seen} to ${to}: Redis lost data, and may ` +
    'have issued a token twice. This client raised the counter again; check what was written in the meantime'
  return clientWarning('FENCING_TOKENS_WENT_BACK', message)
}

export function releaseFailed(lockName: string, cause: unknown): Error {
  const message =
    `The function that held ${JSON.stringify(lockName)} threw, and the release failed too (${messageOf(cause)}): it is ` +
    'repeated in the background, and the lease ends the lock at the latest'
  return clientWarning('RELEASE_FAILED', message, { cause })
}

/**
 * @param heldMs  how long ago it was taken
 * @param ends  what ends it, and in how many ms; undefined: nothing does
 * @param frames  of the call that took it
 */
export function holdDropped(
  { lockName, label }: { lockName: string; label: string | undefined },
  heldMs: number,
  ends: { what: string; inMs: number } | undefined,
  frames: string,
): Error {
  const about = label === undefined ? '' : ` (label ${JSON.stringify(label)})`
  const stays = ends
    ? `nobody else gets it until ${ends.what} ends, in ${durationOf(Math.max(0, ends.inMs))}`
    : 'stays held, so nobody else gets it'
  const message =
    `The hold of ${JSON.stringify(lockName)}${about} was dropped without unlock(): it was taken ` +
    `${Math.round(heldMs / 1_000)} s ago and ${stays}. Use withLock(fn), or \`await using hold = await lock.lock()\`. ` +
    `It was taken at\n${frames}\nand the program has no reference to it any more`
  return clientWarning('HOLD_DROPPED', message)
}

export function watchdogThreadEnded(cause: unknown): Error {
  const message =
    `The watchdog thread ended (${messageOf(cause)}). It is being restarted; until then, locks are lost if the event loop is ` +
    'blocked for as long as a lease'
  return clientWarning('WATCHDOG_THREAD_ENDED', message, { cause })
}

/** Something works worse than it should. A client emits each `…_REFUSED` code once. */
function clientWarning(code: WarningCode, message: string, options?: { cause?: unknown }): Error {
  return Object.assign(new Error(message, options), { code })
}

// What tells the ids of Holdfast's clients from Redisson's.

/**
 * The end of every id of a Holdfast client, by which scripts tell them from Redisson's. The rest is random
 * enough: 90 bits.
 */
const MARK = '401dfa57'

/** Whether it is the id of a Holdfast client. */
export function isMarked(clientId: string): boolean {
  return clientId.endsWith(MARK)
}

/** @param uuid  of version 4, as Redisson's client ids */
export function markedId(uuid: string): string {
  return uuid.replace(/(?<=-[0-9a-f]{4})[0-9a-f]{8}/, MARK)
}

/** Opens clients with `connect`, and locks. */
export function takeALock(holdfast: object): Promise<void>
/** Blocks the event loop for more than two leases while it holds a lock. */
export function holdThroughABlock(holdfast: object, thread?: true | URL): Promise<void>

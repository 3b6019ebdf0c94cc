export function takeALock(holdfast: object): Promise<void>

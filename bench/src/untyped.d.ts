// Its exports hide its types.
declare module 'redlock-5' {
  import type { EventEmitter } from 'node:events'
  import type { Redis } from 'ioredis'
  export default class Redlock extends EventEmitter {
    constructor(clients: Redis[], settings: { retryCount?: number; retryDelay?: number; retryJitter?: number })
    acquire(resources: string[], duration: number): Promise<{ release(): Promise<unknown> }>
    using<T>(resources: string[], duration: number, routine: () => Promise<T>): Promise<T>
  }
}

// It has no types.
declare module 'redlock-4' {
  import type { Redis } from 'ioredis'
  export default class Redlock {
    constructor(clients: Redis[], settings: { retryCount?: number; retryDelay?: number; retryJitter?: number })
    lock(resource: string, ttl: number): Promise<{ unlock(): Promise<unknown> }>
  }
}

// holdfast/testing.
export type { Fault, Sent } from './memory-port.js'
export { createTestRedis, type Faults, type TestKey, TestRedis, type TestRedisOptions } from './test-redis.js'
export type { VirtualTime } from './test-time.js'

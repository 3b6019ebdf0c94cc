// What the Redis in memory has that needs nothing of Holdfast. Most of it is generated: ESM and CommonJS share one file.
export { fromBytes, toBytes } from './bytes.js'
export { type Chunk, forMany, publishBothWays, translated } from './generated.js'
export { Keyspace, type Reply, ReplyError, Status } from './keyspace.js'
export { errorReply, general, LuaError, type Redis, Table, type Value } from './lua.js'

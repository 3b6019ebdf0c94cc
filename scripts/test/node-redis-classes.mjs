// Loaded into the process of each test file. node-redis defines a class of 500 methods, in 20 ms and more of garbage, whenever
// the options of a client differ from those of the last one, be it in the port: with Sentinel, at each connection. Only the
// options below make classes differ.
import { createRequire } from 'node:module'

const { prototype } = createRequire(import.meta.resolve('redis'))('@redis/client/dist/lib/single-entry-cache').default
const caches = new WeakMap()

prototype.get = function (options) {
  return caches.get(this)?.get(keyOf(options))
}

prototype.set = function (options, made) {
  if (!caches.has(this)) caches.set(this, new Map())
  caches.get(this).set(keyOf(options), made)
}

function keyOf({ RESP, modules, functions, scripts } = {}) {
  return JSON.stringify([RESP, modules, functions, scripts])
}

// Makes this thread look like a thread of a browser: what scripts of web-platform-tests find in their global scope.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { runInThisContext } from 'node:vm'
import { Worker as Thread } from 'node:worker_threads'

/** A dead worker keeps its locks for this long, ms: less than a test may take. */
const LEASE_MS = 2_000

/**
 * @param options  of `connect`, for a client whose `client.locks` are used; undefined: the locks of Node itself
 * @returns how to end it
 */
export async function becomeAgent({ folder, options }) {
  const { locks, classes, close } = options === undefined ? await nativeLocks() : await holdfastLocks(options)
  const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true })
  define('navigator', Object.create({ locks })) // as of an interface: an attribute is a property of the prototype
  define('self', globalThis)
  define('isSecureContext', true)
  define('GLOBAL', { isWindow: () => false, isWorker: () => true, isShadowRealm: () => false })
  for (const [name, value] of Object.entries(classes)) define(name, value)
  define('Worker', workerClass({ folder, options }))
  return close
}

async function nativeLocks() {
  const locks = globalThis.navigator?.locks
  if (locks === undefined) throw new Error('This Node has no navigator.locks: try --lts')
  const Lock = await locks.request('any', (lock) => lock.constructor) // Node has no global of that name
  return { locks, classes: { Lock, LockManager: locks.constructor }, close: async () => {} }
}

async function holdfastLocks(options) {
  const { connect, WebLock, WebLockManager } = await import(new URL('../../dist/index.js', import.meta.url))
  const client = await connect({ ...options, lockWatchdogTimeoutMs: LEASE_MS })
  return {
    locks: client.locks,
    classes: { Lock: WebLock, LockManager: WebLockManager },
    close: async () => await client.close(),
  }
}

/** Runs a script in the global scope, as a browser does. @param path  as written in the file `from` */
export function runScript(path, from, folder) {
  const file = path.startsWith('/') ? join(rootOf(folder), path) : join(dirname(from), path)
  runInThisContext(readFileSync(file, 'utf8'), { filename: file })
}

/** The folder of all web-platform-tests, if this is one of its folders. */
export function rootOf(folder) {
  for (let at = folder; at !== dirname(at); at = dirname(at))
    if (existsSync(join(at, 'resources', 'testharness.js'))) return at
  return dirname(folder.endsWith(sep) ? folder.slice(0, -1) : folder)
}

/** A worker is a thread with a client of its own. */
function workerClass(agent) {
  return class Worker extends EventTarget {
    #thread

    constructor(path) {
      super()
      const file = join(agent.folder, String(path))
      this.#thread = new Thread(new URL('worker.mjs', import.meta.url), { workerData: { ...agent, file } })
      this.#thread.on('message', (data) => {
        const event = new MessageEvent('message', { data })
        this.onmessage?.(event)
        this.dispatchEvent(event)
      })
      this.#thread.on('error', (error) => this.onerror?.(error))
      this.#thread.unref()
    }

    postMessage(data) {
      this.#thread.postMessage(data)
    }

    terminate() {
      void this.#thread.terminate()
    }
  }
}

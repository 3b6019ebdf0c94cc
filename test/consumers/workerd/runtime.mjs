// Redis, two fronts of it, and isolates of workerd that run the bundled Worker.
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { Log, LogLevel, Miniflare } from 'miniflare'
import { startUpstashFront } from './upstash-front.mjs'

/** @param work  called with how to start an isolate, with the front that may have faults, and Redis */
export async function inWorkerd(work) {
  const redis = new Redis(process.env.REDIS_URL)
  const [front, faulty] = [
    await startUpstashFront(process.env.REDIS_URL),
    await startUpstashFront(process.env.REDIS_URL),
  ]
  const isolates = []
  const start = () => {
    const isolate = new Miniflare({
      modules: true,
      script: readFileSync('out/worker.js', 'utf8'),
      compatibilityDate: '2025-05-05', // the first with WeakRef
      compatibilityFlags: ['nodejs_compat'],
      bindings: { front: front.url, faulty: faulty.url, token: front.token },
      cf: false,
      log: new Log(LogLevel.WARN),
    })
    isolates.push(isolate)
    return async (path) => {
      const response = await isolate.dispatchFetch(`http://worker${path}`)
      const text = await response.text()
      if (!response.ok) throw new Error(text)
      return JSON.parse(text)
    }
  }
  try {
    await work({ start, faulty, redis })
  } finally {
    await Promise.all(isolates.map((isolate) => isolate.dispose()))
    await Promise.all([front.stop(), faulty.stop()])
    redis.disconnect()
  }
}

// Starts the app that was built, and calls its route on the edge runtime.
import assert from 'node:assert/strict'
import { startApp } from './app.mjs'
import { startUpstashFront } from './upstash-front.mjs'

const front = await startUpstashFront(process.env.REDIS_URL)
const { url, stop } = await startApp({ FRONT_URL: front.url, FRONT_TOKEN: front.token })
const response = await fetch(`${url}/edge`, { method: 'POST' })
const text = await response.text()
assert.equal(text, '[2,null,"exclusive"]')
await stop()
await front.stop()

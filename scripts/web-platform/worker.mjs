// A worker of web-platform-tests, as a thread.
import { parentPort, workerData } from 'node:worker_threads'
import { becomeAgent, runScript } from './agent.mjs'

const { file, folder } = workerData
const received = []
let deliver = (data) => received.push(data)
parentPort.on('message', (data) => deliver(data))

await becomeAgent(workerData)
/** Those of messages: of other events a thread has none. */
const listeners = new Set()
Object.assign(globalThis, {
  addEventListener: (type, listener) => void (type === 'message' && listeners.add(listener)),
  removeEventListener: (type, listener) => void (type === 'message' && listeners.delete(listener)),
  postMessage: (data) => parentPort.postMessage(data),
  importScripts: (...paths) => {
    for (const path of paths) runScript(path, file, folder)
  },
  close: () => process.exit(),
})
runScript(file.slice(folder.length + 1), `${folder}/x`, folder)
deliver = (data) => {
  const event = new MessageEvent('message', { data })
  globalThis.onmessage?.(event)
  for (const listener of [...listeners]) listener.call(globalThis, event)
}
for (const data of received.splice(0)) deliver(data)

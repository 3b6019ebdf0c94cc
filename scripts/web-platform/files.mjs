// Which files of a folder of web-platform-tests run in Node, and why others do not.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { rootOf } from './agent.mjs'

/** What Node does not have, by what a file of tests says when it needs it. */
const NEEDS = [
  [/\bidl_test\(/, 'the interfaces of the whole platform'],
  [/\bstorageBuckets\b/, 'storage buckets'],
  [/bfcache/i, 'a back/forward cache'],
  [/\b(?:document|window)\.|\biframe\(/, 'a window'],
  [/\bSharedWorker\b|\bserviceWorker\b/, 'shared or service workers'],
]

/** The scripts that a file of tests names in its first lines. */
export function scriptsOf(text) {
  return [...text.matchAll(/^\s*\/\/ META: script=(\S+)/gm)].map(([, path]) => path)
}

/** @returns the files of tests, each with what it lacks here, if anything */
export function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
  return names
    .filter((name) => /\.(?:any|window|worker)\.js$|\.html$/.test(name) && !/(?:^|[\\/])resources[\\/]/.test(name))
    .map((name) => ({ name, file: join(folder, name), lacks: lackOf(join(folder, name), folder) }))
}

function lackOf(file, folder) {
  if (!file.endsWith('.any.js')) return 'is a page'
  if (!/\.https\./.test(file)) return 'is a page without TLS'
  const text = readFileSync(file, 'utf8')
  const code = text.replace(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*/g, '')
  const needed = NEEDS.find(([says]) => says.test(code))
  if (needed) return `needs ${needed[1]}`
  const missing = scriptsOf(text).find(
    (path) => !existsSync(path.startsWith('/') ? join(rootOf(folder), path) : join(dirname(file), path)),
  )
  return missing && `needs the script ${missing}`
}

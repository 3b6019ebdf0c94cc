// Reads the files of the page. In the program as one file, scripts/build/standalone.mjs puts the files themselves here.
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/**
 * @param folder  its URL, ending in a slash
 * @returns `index.html` and the files of `assets/`, by their path in the folder; empty if the page is not built
 */
export function pageFiles(folder: URL): Map<string, Buffer<ArrayBuffer>> {
  const assets = new URL('assets/', folder)
  const paths = existsSync(assets) ? readdirSync(assets).map((name) => `assets/${name}`) : []
  if (existsSync(new URL('index.html', folder))) paths.push('index.html')
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, folder))]))
}

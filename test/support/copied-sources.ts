import { cpSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** What the tarball is made of and with. */
const SOURCES = [
  'src',
  'ui',
  'site/icon.svg',
  'scripts',
  'grafana',
  'prometheus',
  'package.json',
  'tsconfig.json',
  'biome.json',
  'README.md',
  'LICENSE',
]

/** Copies into a new folder what the package is built from, with the tools of this one. @returns the folder */
export function copySources(folder: string): string {
  mkdirSync(folder, { recursive: true })
  for (const source of SOURCES) cpSync(join(ROOT, source), join(folder, source), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

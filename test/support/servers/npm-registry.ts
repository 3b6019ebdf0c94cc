import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { withoutRepository } from '../without-repository.js'

const exec = promisify(execFile)

export interface NpmRegistry extends AsyncDisposable {
  /** The environment of a user who works in this folder, where `npm install -g` puts everything into `prefix`. */
  environmentIn(folder: string): NodeJS.ProcessEnv
}

/**
 * An npm registry on 127.0.0.1: it has this package as `npm pack` makes it of `dist/`, and forwards to the real registry for
 * all others.
 */
export async function startNpmRegistry(): Promise<NpmRegistry> {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { name: string; version: string }
  const { name, version } = manifest
  const tarball = await pack()
  const setting = async (name: string): Promise<string> => (await exec('npm', ['config', 'get', name])).stdout.trim()
  const [upstream, globalConfig] = await Promise.all(['registry', 'globalconfig'].map(setting))
  const server = createServer(({ url = '/' }, response) => {
    const { port } = server.address() as AddressInfo
    if (url === '/the.tgz') return void response.end(tarball)
    if (url !== `/${name}`)
      return void response.writeHead(302, { location: new URL(url.slice(1), upstream).href }).end()
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
    const dist = { tarball: `http://127.0.0.1:${port}/the.tgz`, integrity }
    const versions = { [version]: { ...manifest, dist } }
    response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    environmentIn: (folder) => ({
      ...withoutRepository(process.env),
      npm_config_registry: `http://127.0.0.1:${port}/`,
      npm_config_cache: join(folder, 'npm-cache'), // not the package as it was packed before
      npm_config_globalconfig: globalConfig, // of this machine, not below the prefix
      npm_config_prefix: join(folder, 'prefix'),
      PATH: [join(folder, 'prefix', 'bin'), withoutRepository(process.env)['PATH']].join(delimiter),
    }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function pack(): Promise<Buffer> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  try {
    const { stdout } = await exec('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', dir])
    const [{ filename }] = Object.values(JSON.parse(stdout)) as [{ filename: string }]
    return readFileSync(join(dir, filename))
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

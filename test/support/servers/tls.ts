import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { atProcessExit } from '../processes/process-exit.js'
import { type RedisServer, startRedis } from './redis-server.js'

const TLS_PORT = '--tls-port'
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
/** Our own: the system's may say anything. */
const CONFIG = `
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = `

/** A certificate and its key: the PEM files and their text. */
export interface Certificate {
  readonly certFile: string
  readonly keyFile: string
  readonly cert: string
  readonly key: string
}

/** What a throw-away certificate authority made. */
export interface Certificates extends Disposable {
  readonly caFile: string
  readonly ca: string
  /** The server's, for `names`. */
  readonly server: Certificate
  /** A client's, with both as PKCS#12 too. */
  readonly client: Certificate & { readonly p12File: string; readonly p12Password: string }
  /** Removes the files. They go with this process too. */
  remove(): void
}

/**
 * Makes a certificate authority that nobody trusts, and certificates of it; valid for two days.
 * @param options.names of the server; default `IP:127.0.0.1` and `DNS:localhost`. Others make a certificate that is not
 *                      for the server it comes from.
 */
export async function makeCertificates(options: { names?: readonly string[] } = {}): Promise<Certificates> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-tls-'))
  const remove = removeWithThisProcess(dir)
  const read = (file: string) => readFileSync(join(dir, file), 'utf8')
  const p12Password = 'not a secret'

  const make = async (name: 'server' | 'client'): Promise<Certificate> => {
    const [keyFile, request, certFile] = [`${name}.key`, `${name}.csr`, `${name}.crt`]
    const subject = `/CN=Holdfast test ${name}`
    await openssl(
      dir,
      'req',
      '-new',
      ...NEW_KEY,
      '-config',
      'cnf',
      '-subj',
      subject,
      '-keyout',
      keyFile,
      '-out',
      request,
    )
    const signing = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-set_serial', name === 'server' ? '2' : '3', '-days', '2']
    const extensions = ['-extfile', 'cnf', '-extensions', name]
    await openssl(dir, 'x509', '-req', '-in', request, '-out', certFile, '-sha256', ...signing, ...extensions)
    return { certFile: join(dir, certFile), keyFile: join(dir, keyFile), cert: read(certFile), key: read(keyFile) }
  }

  try {
    const names = options.names ?? ['IP:127.0.0.1', 'DNS:localhost']
    writeFileSync(join(dir, 'cnf'), `${CONFIG}${names.join(', ')}\n`)
    const ca = [
      '-config',
      'cnf',
      '-extensions',
      'ca',
      '-subj',
      '/CN=Holdfast test CA',
      '-days',
      '2',
      '-set_serial',
      '1',
    ]
    await openssl(dir, 'req', '-x509', ...NEW_KEY, ...ca, '-sha256', '-keyout', 'ca.key', '-out', 'ca.crt')
    const [server, client] = await Promise.all([make('server'), make('client')])
    const pair = ['-in', 'client.crt', '-inkey', 'client.key', '-certfile', 'ca.crt']
    await openssl(dir, 'pkcs12', '-export', ...pair, '-out', 'client.p12', '-passout', `pass:${p12Password}`)
    return {
      caFile: join(dir, 'ca.crt'),
      ca: read('ca.crt'),
      server,
      client: { ...client, p12File: join(dir, 'client.p12'), p12Password },
      remove,
      [Symbol.dispose]: remove,
    }
  } catch (error) {
    remove()
    throw error
  }
}

export interface TlsRedis extends AsyncDisposable {
  /** The server; its own `port`, `url` and `admin` are without TLS. */
  readonly server: RedisServer
  /** Where it speaks TLS. */
  readonly port: number
  readonly url: string
  stop(): Promise<void>
}

/**
 * A redis-server that also speaks TLS, on a port of its own.
 * @param options.args               as for `startRedis`
 * @param options.clientCertificates whether a client must show a certificate of the same CA; default `no`
 */
export async function startTlsRedis(
  { caFile, server: { certFile, keyFile } }: Certificates,
  options: { args?: readonly string[]; clientCertificates?: 'no' | 'optional' | 'yes' } = {},
): Promise<TlsRedis> {
  const { args = [], clientCertificates = 'no' } = options
  const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', caFile]
  const server = await startRedis({
    ports: [TLS_PORT],
    args: [...files, '--tls-auth-clients', clientCertificates, ...args],
  })
  const port = server.ports[TLS_PORT] as number
  const stop = () => server.stop()
  return { server, port, url: `rediss://127.0.0.1:${port}`, stop, [Symbol.asyncDispose]: stop }
}

/** Removes `dir` when this process is gone, however it went; returns a function that does it now. */
function removeWithThisProcess(dir: string): () => void {
  const removeNow = () => rmSync(dir, { recursive: true, force: true })
  const callOff = atProcessExit(removeNow)
  // As the guard of process-exit.ts: end of file on a pipe that only we hold open.
  const script = 'trap "" INT TERM HUP; read -r _; rm -rf "$1"'
  const guard = spawn('sh', ['-c', script, 'guard', dir], { stdio: ['pipe', 'ignore', 'ignore'] })
  guard.on('error', () => {})
  guard.stdin.on('error', () => {})
  guard.unref()
  if (guard.stdin instanceof Socket) guard.stdin.unref()
  return () => {
    callOff()
    guard.stdin.end()
    removeNow()
  }
}

async function openssl(cwd: string, ...args: string[]): Promise<void> {
  try {
    await promisify(execFile)('openssl', args, { cwd })
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    const advice = 'openssl is not installed: `node scripts/setup/redis.mjs` installs it'
    throw isMissing ? new Error(advice, { cause: error }) : error
  }
}

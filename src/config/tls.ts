// Certificates and verification.
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type ConnectionOptions, createSecureContext } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors.js'
import { object } from './checks.js'

/** Certificates in the form that Node takes, in a configuration given in code. */
export type TlsFiles = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'servername'>

const TLS_FILES = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'servername']

export function tlsFiles(value: unknown, path: string): TlsFiles {
  const files = object(value, path)
  for (const key of Object.keys(files)) {
    if (!TLS_FILES.includes(key)) throw new ConfigError(`${path}.${key}`, undefined, `one of ${TLS_FILES.join(', ')}`)
  }
  return files as TlsFiles
}

/** The TLS keys of a configuration. */
export interface TlsSettings {
  readonly tls?: TlsFiles | undefined
  readonly sslVerificationMode?: 'STRICT' | 'CA_ONLY' | 'NONE' | undefined
  readonly sslTruststore?: string | undefined
  readonly sslKeystore?: string | undefined
  readonly sslKeystorePassword?: string | undefined
  readonly sslProtocols?: readonly string[] | undefined
  readonly sslCiphers?: readonly string[] | undefined
}

/**
 * The server name to send (SNI), so that a proxy in front of several servers finds the right one. Node sends none by
 * itself, and an IP address must not be sent.
 */
export function serverName(host: string): Pick<ConnectionOptions, 'servername'> {
  return isIP(host.replace(/^\[(.*)\]$/, '$1')) === 0 ? { servername: host.replace(/\.$/, '') } : {}
}

/**
 * @param pathOf  returns the path of a key in the file
 * @throws {ConfigError} a file cannot be read or used
 */
export function tlsOptions(settings: TlsSettings, pathOf: (key: string) => string): ConnectionOptions {
  const { sslVerificationMode, sslTruststore, sslKeystore, sslKeystorePassword, sslProtocols, sslCiphers } = settings
  const options: ConnectionOptions = { ...settings.tls }
  if (sslVerificationMode === 'NONE') options.rejectUnauthorized = false
  if (sslVerificationMode === 'CA_ONLY') options.checkServerIdentity = () => undefined
  if (sslTruststore !== undefined) options.ca = readTruststore(sslTruststore, pathOf('sslTruststore'))
  if (sslKeystore !== undefined) {
    Object.assign(options, readKeystore(sslKeystore, sslKeystorePassword, pathOf('sslKeystore')))
  }
  if (sslProtocols) {
    const sorted = [...sslProtocols].sort() as NonNullable<ConnectionOptions['minVersion']>[]
    options.minVersion = sorted[0]
    options.maxVersion = sorted.at(-1)
  }
  if (sslCiphers) options.ciphers = sslCiphers.join(':')
  checkContext({ ciphers: options.ciphers }, pathOf('sslCiphers'), 'ciphers that OpenSSL supports')
  checkContext(settings.tls ?? {}, 'tls', 'certificates and keys that OpenSSL can read')
  return options
}

function readTruststore(file: string, path: string): string {
  const bytes = readBytes(file, path)
  if (isPem(bytes)) return bytes.toString()
  throw new ConfigError(
    path,
    file,
    'certificates in a PEM file, because Node cannot read a Java trust store: ' +
      'keytool -list -rfc -keystore truststore > ca.pem, or openssl pkcs12 -in truststore.p12 -nokeys -out ca.pem; ' +
      'or the option tls: { ca } in code, which takes precedence',
  )
}

function readKeystore(file: string, passphrase: string | undefined, path: string): ConnectionOptions {
  const bytes = readBytes(file, path)
  const ours = isPem(bytes) ? { cert: bytes, key: bytes } : { pfx: bytes }
  const allowed =
    'a PKCS12 or PEM file with certificate and key, and the matching sslKeystorePassword. Node cannot read JKS: ' +
    'keytool -importkeystore -srckeystore keystore.jks -destkeystore keystore.p12 -deststoretype PKCS12; or the option tls: { cert, key } in code, which takes precedence'
  const options = passphrase === undefined ? ours : { ...ours, passphrase }
  checkContext(options, path, allowed)
  return options
}

/** Otherwise Node would report it at every connection. */
function checkContext(options: ConnectionOptions, path: string, allowed: string): void {
  try {
    createSecureContext(options)
  } catch {
    throw new ConfigError(path, undefined, allowed)
  }
}

function readBytes(file: string, path: string): Buffer {
  try {
    // Java also accepts URLs: `file:/x`, and `file:./x` from the working directory.
    const path = file.replace(/^file:(?!\/)/, '')
    return readFileSync(/^file:/.test(path) ? fileURLToPath(new URL(path)) : path)
  } catch (cause) {
    throw new ConfigError(path, file, 'a file that can be read', { cause })
  }
}

function isPem(bytes: Buffer): boolean {
  return bytes.includes('-----BEGIN ')
}

// The deployment under test.
import { randomUUID } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'
import type { Client } from '../client.js'
import { openDeployment, openUrl } from '../config/connecting/servers.js'
import { type Deployment, describe } from '../config/deployment.js'
import { loadConfig } from '../config/load.js'
import { checkRedisUrl } from '../config/redis-url.js'
import { connect } from '../connect.js'
import { slotOf } from '../wire/slots.js'
import type { Role } from './acl.js'
import { type LockSample, sampleLocks } from './lock-sample.js'
import { Server } from './server.js'

/** Where Redis is: a URL, or the path of a Redisson configuration. */
export type Target = { readonly url: string } | { readonly config: string }

const DISCONNECT_MS = 500

/** A Redis deployment as a Holdfast client sees it. */
export class DeploymentUnderTest implements AsyncDisposable {
  /** A Holdfast client like any other. */
  readonly client: Client
  /** Undefined if a URL was given. */
  readonly deployment: Deployment | undefined
  /** All masters, or the one server that was given. Never empty. */
  readonly servers: readonly [Server, ...Server[]]
  readonly isTls: boolean
  /** The prefix of this user's lock names. */
  readonly prefix: string
  /** What the user is for. */
  readonly role: Role
  /** Name of the trial locks: the prefix and a random part. */
  readonly trialName: string
  /** Warnings of the client meanwhile. */
  readonly warnings: string[] = []
  readonly #redis: Redis | Cluster
  #sample: Promise<LockSample> | undefined

  private constructor(
    client: Client,
    redis: Redis | Cluster,
    deployment: Deployment | undefined,
    prefix: string,
    role: Role,
  ) {
    this.client = client
    this.deployment = deployment
    this.#redis = redis
    const masters = redis.isCluster ? (redis as Cluster).nodes('master') : [redis as Redis]
    const [first, ...others] = masters.map((node) => new Server(node))
    if (!first) throw new Error('the cluster lists no master')
    this.servers = [first, ...others]
    this.isTls = first.redis.options.tls !== undefined
    this.prefix = prefix
    this.role = role
    this.trialName = `${prefix}holdfast-doctor:${randomUUID()}`
    client.on('warning', ({ message }) => this.warnings.push(message))
  }

  /**
   * @param prefix  of the names of the trial locks
   * @param role    what its user is for
   * @throws {ConfigError} the URL or the configuration is invalid
   * @throws the error of the Redis client: unreachable, wrong password …
   */
  static async open(target: Target, prefix: string, role: Role = 'app'): Promise<DeploymentUnderTest> {
    const client = await connect(target)
    try {
      const deployment = 'config' in target ? describe(await loadConfig(target.config)) : undefined
      const redis = await ('url' in target
        ? openUrl(checkRedisUrl(target.url, 'url'), DISCONNECT_MS)
        : openDeployment(deployment as Deployment, DISCONNECT_MS))
      if (redis.status === 'wait') await redis.connect() // it connects lazily
      return new DeploymentUnderTest(client, redis, deployment, prefix, role)
    } catch (error) {
      await client.close()
      throw error
    }
  }

  get isCluster(): boolean {
    return this.#redis.isCluster
  }

  /** Whether a lock counts as acquired only once a replica has it. */
  get isAcknowledged(): boolean {
    const mode = this.deployment?.mode
    return this.deployment?.options.checkLockSyncedSlaves ?? (mode === 'cluster' || mode === 'sentinel')
  }

  /** Its locks, as many as are found in a moment, read once. */
  locks(): Promise<LockSample> {
    this.#sample ??= sampleLocks(this.client)
    return this.#sample
  }

  /** The server that has a key or a sharded channel. */
  ownerOf(key: string): Server {
    const [first] = this.servers
    if (!this.isCluster) return first
    const address = (this.#redis as Cluster).slots[slotOf(key)]?.[0]
    const isOwner = ({ redis: { options } }: Server): boolean => `${options.host}:${options.port}` === address
    return this.servers.find(isOwner) ?? first
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#redis.disconnect()
    await this.client.close()
  }
}

import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { MurLockModule, MurLockService } from 'murlock'
import { keptBy } from '../kept-by.js'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, tuned }: OpenOptions): Promise<Locker> {
  // It has no defaults; these are from its README.
  const waiting = tuned ? { wait: 1, maxAttempts: 3, blocking: true } : { wait: 1_000, maxAttempts: 3 }
  const module = MurLockModule.forRoot({ redisOptions: { url }, logLevel: 'error', ...waiting })
  const app = await NestFactory.createApplicationContext(module, { logger: false })
  const murlock = app.get(MurLockService)
  return { acquire: (name) => keptBy((section) => murlock.runWithLock(name, leaseMs, section)) }
}

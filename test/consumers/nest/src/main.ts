import 'reflect-metadata'
import { strictEqual } from 'node:assert'
import { NestFactory } from '@nestjs/core'
import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'
import { AppModule, Orders } from './orders'

async function bootstrap(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] })
  strictEqual(await app.get(Orders).ship('1001'), '1001, held 2 times')
  await takeALock(holdfast)
  await app.close()
}

void bootstrap()

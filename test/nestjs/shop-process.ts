/** A shop server in a process of its own: POST /buy sells one piece of what Redis at REDIS_URL has in stock. */
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Controller, Injectable, Module, type OnApplicationShutdown, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Redis } from 'ioredis'
import { HoldfastModule, Locked } from '../../src/nestjs/index.js'
import { onCommand, report } from '../support/processes/child.js'

const { REDIS_URL = '' } = process.env

@Injectable()
class Warehouse implements OnApplicationShutdown {
  readonly redis = new Redis(REDIS_URL)

  /** Reads, thinks and writes: correct only with exclusive access. */
  async sell(): Promise<{ sold: boolean }> {
    const stock = Number(await this.redis.get('stock'))
    if (stock === 0) return { sold: false }
    await pause(2)
    await this.redis.set('stock', stock - 1)
    return { sold: true }
  }

  onApplicationShutdown(): void {
    this.redis.disconnect()
  }
}

@Controller()
class Shop {
  constructor(readonly warehouse: Warehouse) {}

  @Post('buy')
  @Locked('lock:stock')
  async buy() {
    return await this.warehouse.sell()
  }

  @Post('buy-without-lock')
  async buyWithoutLock() {
    return await this.warehouse.sell()
  }
}

@Module({ imports: [HoldfastModule.forRoot(REDIS_URL)], controllers: [Shop], providers: [Warehouse] })
class ShopModule {}

const app = await NestFactory.create(ShopModule, { logger: ['error'] })
app.enableShutdownHooks()
await app.listen(0, '127.0.0.1')
const { port } = app.getHttpServer().address() as AddressInfo
onCommand(async () => await app.close())
report({ url: `http://127.0.0.1:${port}` })

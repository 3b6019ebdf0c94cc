/** Two NestJS servers sell the last five items to twenty buyers over HTTP; the endpoint runs one at a time. */
import type { AddressInfo } from 'node:net'
import { Controller, Injectable, Module, type OnApplicationShutdown, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { currentHold, HoldfastModule, Locked } from 'holdfast/nestjs'
import { Redis } from 'ioredis'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

@Injectable()
class Warehouse implements OnApplicationShutdown {
  readonly redis = new Redis(REDIS_URL)

  @Locked('lock:example:stock', { waitTimeMs: 10_000 })
  async takeOne(): Promise<boolean> {
    const stock = Number(await this.redis.get('example:stock'))
    if (stock === 0) return false
    currentHold().assertHeld() // right before what must not happen twice
    await this.redis.set('example:stock', stock - 1)
    return true
  }

  onApplicationShutdown(): void {
    this.redis.disconnect()
  }
}

@Controller()
class Shop {
  constructor(readonly warehouse: Warehouse) {}

  @Post('buy')
  async buy() {
    return { sold: await this.warehouse.takeOne() }
  }
}

@Module({ imports: [HoldfastModule.forRoot(REDIS_URL)], controllers: [Shop], providers: [Warehouse] })
class ShopModule {}

async function startServer() {
  const app = await NestFactory.create(ShopModule, { logger: ['error'] })
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  return { app, url: `http://127.0.0.1:${port}/buy` }
}

// In production these are two processes that share Redis.
const servers = [await startServer(), await startServer()]
const warehouse = new Redis(REDIS_URL)
await warehouse.set('example:stock', 5)

const purchases = servers.flatMap(({ url }) => Array.from({ length: 10 }, async () => await buy(url)))
const sold = (await Promise.all(purchases)).filter((wasSold) => wasSold).length

console.log(`20 buyers, 5 items: ${sold} sold, ${await warehouse.get('example:stock')} left`)

await warehouse.del('example:stock')
warehouse.disconnect()
for (const { app } of servers) await app.close()

async function buy(url: string): Promise<boolean> {
  const response = await fetch(url, { method: 'POST' })
  const answer = (await response.json()) as { sold: boolean }
  return answer.sold
}

// Output:
// 20 buyers, 5 items: 5 sold, 0 left

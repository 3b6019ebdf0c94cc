import { Injectable, Module } from '@nestjs/common'
import { Client } from 'holdfast'
import { currentHold, HoldfastModule, Locked } from 'holdfast/nestjs'

@Injectable()
export class Orders {
  constructor(readonly client: Client) {}

  @Locked('consumer:order:{0}')
  async ship(id: string): Promise<string> {
    currentHold().assertHeld()
    return await this.client.getLock(`consumer:order:${id}`).withLock(async (hold) => `${id}, held ${hold.count} times`)
  }
}

@Module({
  imports: [HoldfastModule.forRoot(process.env.REDIS_URL ?? '')],
  providers: [Orders],
})
export class AppModule {}

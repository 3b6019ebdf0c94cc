/** What the types of @Locked promise. Compiled with the tests, and never run. */
import { HoldfastModule, Locked } from '../../src/nestjs/index.js'

interface Order {
  id: string
}

export class Orders {
  @Locked('order:{0}')
  async name(_id: string): Promise<string> {
    return ''
  }

  @Locked('order')
  async answersNothing(): Promise<void> {}

  @Locked((order: Order) => order.id, { onBusy: (_order: Order, id: number) => id })
  async byFunction(_order: Order, _id: number, _more: string): Promise<number> {
    return 1
  }

  @Locked('order', { onBusy: 'skip' })
  async skips(): Promise<string | undefined> {
    return ''
  }

  @Locked('order', { onBusy: 'skip' })
  async skipsNothing(): Promise<void> {}

  @Locked('order', {
    onBusy: () => {
      throw new Error('busy')
    },
  })
  async throws(): Promise<string> {
    return ''
  }

  // @ts-expect-error: it would return a promise
  @Locked('order')
  sync(): string {
    return ''
  }

  // @ts-expect-error: it may return undefined
  @Locked('order', { onBusy: 'skip' })
  async skipsWithoutSayingSo(): Promise<string> {
    return ''
  }

  // @ts-expect-error: it may return a number
  @Locked('order', { onBusy: () => 1 })
  async answersSomethingElse(): Promise<string> {
    return ''
  }

  // @ts-expect-error: there is no order in the arguments
  @Locked((order: Order) => order.id)
  async withoutOrder(_id: string): Promise<void> {}

  // @ts-expect-error: a misspelt option
  @Locked('order', { leaseTime: 1 })
  async misspelt(): Promise<void> {}

  // @ts-expect-error: a kind that there is not
  @Locked('order', { kind: 'fare' })
  async unkind(): Promise<void> {}
}

HoldfastModule.forRoot('redis://127.0.0.1:6379')
HoldfastModule.forRoot({ name: 'stock', url: 'redis://127.0.0.1:6379', drainMs: 1, isGlobal: false })
HoldfastModule.forRootAsync({ inject: ['url'], useFactory: async (url: string) => ({ url }) })
// @ts-expect-error: a misspelt option
HoldfastModule.forRoot({ url: 'redis://127.0.0.1:6379', drain: 1 })
// @ts-expect-error: neither factory nor class
HoldfastModule.forRootAsync({ name: 'stock' })

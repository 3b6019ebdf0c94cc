import 'reflect-metadata'
import { Test } from '@nestjs/testing'
import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'
import { AppModule, Orders } from './orders'

test('a method runs with a lock held', async () => {
  const app = await (await Test.createTestingModule({ imports: [AppModule] }).compile()).init()
  expect(await app.get(Orders).ship('1001')).toBe('1001, held 2 times')
  expect(app.get(Orders).client).toBeInstanceOf(holdfast.Client)
  await takeALock(holdfast)
  await app.close()
})

import { describe } from 'node:test'
import { itAgrees } from './agreement.js'

describe('locks agree with the model after every step of random sequences', () => {
  itAgrees('fair-locks')
})

import { Inject } from '@nestjs/common'

/**
 * The token of a client, for `inject` of a factory, for `app.get()` and for tests that put another one in its place.
 * @param name  as given to `HoldfastModule`; absent: the client without a name
 */
export function getHoldfastToken(name?: string): string {
  return name === undefined ? 'holdfast' : `holdfast:${name}`
}

/**
 * Inject a client into a constructor parameter or a property. The one without a name is injected by its class, `Client`,
 * as well.
 * @param name  as given to `HoldfastModule`; absent: the client without a name
 */
export function InjectHoldfast(name?: string): ParameterDecorator & PropertyDecorator {
  return Inject(getHoldfastToken(name))
}

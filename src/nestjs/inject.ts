// Injection tokens.
import { Inject } from '@nestjs/common'

/**
 * The token of a client, for `inject` of a factory, for `app.get()`, and for `overrideProvider()` in tests.
 * @param name  as given to `HoldfastModule`; absent: the client without a name
 * @example `const client = app.get<Client>(getHoldfastToken('reports'))`
 */
export function getHoldfastToken(name?: string): string {
  return name === undefined ? 'holdfast' : `holdfast:${name}`
}

/**
 * Inject a client into a constructor parameter or a property. The client without a name is also injected by its class,
 * `Client`.
 * @param name  as given to `HoldfastModule`; absent: the client without a name
 * @example `constructor(@InjectHoldfast('reports') private readonly client: Client) {}`
 */
export function InjectHoldfast(name?: string): ParameterDecorator & PropertyDecorator {
  return Inject(getHoldfastToken(name))
}

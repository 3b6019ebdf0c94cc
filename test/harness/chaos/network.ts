import { startProxy, type TcpProxy } from '../../support/servers/tcp-proxy.js'

/** The network of one worker: a proxy for each server, and the calls that make all of them fail. */
export class Network implements AsyncDisposable {
  readonly #proxies: ReadonlyMap<number, TcpProxy>

  static async open(ports: readonly number[]): Promise<Network> {
    return new Network(new Map(await Promise.all(ports.map(async (port) => [port, await startProxy(port)] as const))))
  }

  private constructor(proxies: ReadonlyMap<number, TcpProxy>) {
    this.#proxies = proxies
  }

  /** The address of a server, as this worker has it. */
  url(port: number): string {
    const proxy = this.#proxies.get(port)
    if (!proxy) throw new Error(`no proxy leads to ${port}`)
    return proxy.url
  }

  /** For a `natMapper`: servers name each other by their own addresses. */
  get addresses(): Record<string, string> {
    return Object.fromEntries(
      [...this.#proxies].map(([port, proxy]) => [`127.0.0.1:${port}`, `127.0.0.1:${proxy.port}`]),
    )
  }

  get all(): readonly TcpProxy[] {
    return [...this.#proxies.values()]
  }

  /** The way to a server that is in use. */
  one(random: (n: number) => number): TcpProxy {
    const used = this.all.filter(({ connections }) => connections > 0)
    const among = used.length > 0 ? used : this.all
    return among[random(among.length)] as TcpProxy
  }

  /** Resets the connections to these servers. */
  cut(ports: readonly number[]): void {
    for (const port of ports) this.#proxies.get(port)?.cutAll()
  }

  pass(): void {
    for (const proxy of this.all) proxy.pass()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((proxy) => proxy.stop()))
  }
}

// A client on which the user sends commands, too, and may select another database.
import { type Commands, type Connections, send } from './client.js'

/** Refuses what Redis did in any other database than the one that was selected first. */
export class SharedClient {
  readonly #client: Commands
  readonly #connections: Connections
  #database: number | undefined

  constructor(client: Commands, connections: Connections) {
    this.#client = client
    this.#connections = connections
  }

  async noteDatabase(): Promise<void> {
    this.#database = await this.#selected()
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    const reply = send(this.#client, command, key)
    // Sent right behind it, before the user can select another one.
    const database = this.#selected()
    const value = await reply
    const selected = await database
    this.#database ??= selected
    if (selected !== this.#database && selected !== undefined) {
      throw new Error(
        `database ${selected} is selected on the client that was passed to Holdfast, which uses database ${this.#database}: ` +
          'select that one again, or pass valkeyGlide(client, { subscriber }), for connections of its own',
      )
    }
    return value
  }

  #selected(): Promise<number | undefined> {
    return this.#connections.database().catch(() => undefined)
  }
}

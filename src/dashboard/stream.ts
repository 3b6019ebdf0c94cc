// A snapshot, then what differs.
import type { Clock } from '../util/clock.js'
import { defined } from '../util/defined.js'
import type { Snapshot, StreamMessage } from './api.js'
import type { Sampler } from './sampler.js'

/** Lines that a slow reader may leave waiting before its stream is closed. */
const MAX_BEHIND = 30
/** Then the page connects again, and is authorized again. */
const MAX_AGE_MS = 15 * 60_000
const MAX_STREAMS = 50

/** The open streams of a dashboard. */
export class Streams {
  readonly #sampler: Sampler
  readonly #clock: Clock
  readonly #open = new Set<() => void>()

  constructor(sampler: Sampler, clock: Clock) {
    this.#sampler = sampler
    this.#clock = clock
  }

  get isFull(): boolean {
    return this.#open.size >= MAX_STREAMS
  }

  /** A snapshot, then what differs, a line of JSON each. The sampler must be ready. */
  open(about: Pick<Snapshot, 'title' | 'readOnly'>): ReadableStream<Uint8Array> {
    let end = (): void => {}
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          const endsAt = this.#clock.now() + MAX_AGE_MS
          const encoder = new TextEncoder()
          let sequence = 0
          const send = (message: StreamMessage): void =>
            controller.enqueue(encoder.encode(`${JSON.stringify(message)}\n`))
          const stopListening = this.#sampler.listen((difference) => {
            const isBehind = (controller.desiredSize ?? 0) <= 0
            if (isBehind || this.#clock.now() >= endsAt) close()
            else send({ type: 'changes', sequence: ++sequence, ...difference })
          })
          const close = (): void => {
            end()
            controller.close()
          }
          end = () => {
            stopListening()
            this.#open.delete(close)
          }
          this.#open.add(close)
          send({
            type: 'snapshot',
            sequence,
            ...about,
            totals: this.#sampler.totals,
            history: this.#sampler.history(),
            locks: this.#sampler.rows(),
            ...defined({ outage: this.#sampler.outage }),
          })
        },
        cancel: () => end(),
      },
      { highWaterMark: MAX_BEHIND },
    )
  }

  close(): void {
    for (const close of [...this.#open]) close()
  }
}

import type { HolderStatus } from '../src/fleet/lock-info.js'

export const SIGNS: Record<HolderStatus, string> = { responding: '●', silent: '○', disconnected: '✗', unlisted: '?' }

export const STATUS_HINTS: Record<HolderStatus, string> = {
  responding: 'Its client responds.',
  silent: 'Its client is connected but does not respond: its event loop is blocked, or its process is stopped.',
  disconnected: 'Nobody listens on its inbox: its process is probably gone, or cut off from Redis.',
  unlisted: 'It does not describe itself: Redisson, an older Holdfast, or a client with inspection turned off.',
}

/** A status by sign, word and colour: none of them alone. */
export function Status({ status }: { status: HolderStatus }) {
  return (
    <span class="status" data-status={status} title={STATUS_HINTS[status]}>
      <span class="status-sign" aria-hidden="true">
        {SIGNS[status]}
      </span>
      {status}
    </span>
  )
}

/** Notices about the connection, and the form for a missing token. */
import { useRef, useState } from 'preact/hooks'
import { enterToken } from './api.js'
import { connection, retryNow } from './connection.js'
import { plural, sentenceOf, timeOfDay, visible } from './format.js'
import { outage, type ShownOutage, totals } from './state.js'

const MAX_REASON = 300

export function Banner() {
  const state = connection.value
  if (outage.value !== undefined) return <OutageBanner outage={outage.value} />
  if (state.state === 'stale')
    return (
      <div class="banner" role="alert">
        <strong>{state.since ? `Stale since ${timeOfDay(state.since)}.` : 'Not connected.'}</strong>
        <span>{visible(state.reason, MAX_REASON)} Trying again by itself.</span>
        <RetryButton />
      </div>
    )
  return null
}

function OutageBanner({ outage: { since, readAt, reason } }: { outage: ShownOutage }) {
  return (
    <div class="banner" role="alert">
      <strong>Redis has been unreadable since {timeOfDay(since)}.</strong>
      <span>
        {readAt === undefined
          ? 'What is held is not known.'
          : `What is shown is from ${timeOfDay(readAt)}: locks may have ended or changed hands since.`}{' '}
        Trying again by itself.
      </span>
      <details>
        <summary>Reason</summary>
        {visible(reason, MAX_REASON)}
      </details>
      {connection.value.state === 'stale' && <RetryButton />}
    </div>
  )
}

function RetryButton() {
  return (
    <button type="button" class="button" onClick={retryNow}>
      Retry now
    </button>
  )
}

/** What the server could not see. */
export function Doubts() {
  const doubts = totals.value?.doubts ?? []
  if (doubts.length === 0) return null
  return (
    <div class="banner doubts" role="status">
      <strong>Not all is known.</strong>
      <span>{doubts.map(sentenceOf).join(' ')}</span>
    </div>
  )
}

/** Tells who does not see the figures of a new deadlock. */
export function Announcement() {
  const count = totals.value?.deadlocks ?? 0
  const before = useRef(0)
  const text = useRef('')
  if (count > before.current) text.current = `New deadlock: ${plural(count, 'deadlock')} in all.`
  if (count === 0) text.current = ''
  before.current = count
  return (
    <p class="hidden" role="status" aria-live="assertive">
      {text.current}
    </p>
  )
}

export function TokenForm() {
  const [typed, setTyped] = useState('')
  const submit = (event: Event): void => {
    event.preventDefault()
    const token = /token=([\w-]+)/.exec(typed)?.[1] ?? typed.trim()
    if (token !== '') enterToken(token)
  }
  return (
    <main class="token-form">
      <form onSubmit={submit}>
        <h1>Holdfast</h1>
        <p>
          Open the address that <code>holdfast ui</code> printed when it was started. Its token is new with each start.
          Or paste the address, or the token, here:
        </p>
        <label>
          Token
          <input
            value={typed}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <div class="actions">
          <button type="submit" class="button solid" disabled={typed.trim() === ''}>
            Open the dashboard
          </button>
        </div>
      </form>
    </main>
  )
}

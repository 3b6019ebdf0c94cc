/** Asks for the lock's name and a reason, then interrupts one holder. Nothing is done to any other holder. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { HolderRow, LockRow, UnlockReply } from '../src/dashboard/api.js'
import type { HolderStatus } from '../src/fleet/lock-info.js'
import { postUnlock } from './api.js'
import { shownName, visible, whoIs } from './format.js'
import { focusTable } from './keyboard.js'
import { Status } from './status.js'

const GRACE_MS = 2_000
const MAX_QUARANTINE_S = 60
/** Its holds cannot be handed over, so nobody can keep it from others. */
const NO_QUARANTINE = 'read-write lock'
const MAX_REASON = 1_000
const MAX_ERROR = 500

const CONSEQUENCES: Record<HolderStatus, string> = {
  responding: `Its holder responds and will be interrupted. It loses the lock as soon as it has stopped, after ${GRACE_MS / 1000} s at the latest.`,
  silent: 'Its holder does not respond. It may still be working, and would continue when it wakes up.',
  disconnected: 'Its process is probably gone. If it was only cut off, it may still be working.',
  unlisted: 'Nobody can notify this holder. If it still works, it keeps working alongside the next one.',
}

interface BreakDialogProps {
  readonly lock: LockRow
  readonly holder: HolderRow
  onClose(): void
}

export function BreakDialog({ lock, holder, onClose }: BreakDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [result, setResult] = useState<UnlockReply>()
  useLayoutEffect(() => {
    dialog.current?.showModal()
  }, [])
  const close = (): void => {
    dialog.current?.close()
    onClose()
    if (result !== undefined) focusTable()
  }
  return (
    <dialog ref={dialog} aria-labelledby="break-title" onCancel={close}>
      <h2 id="break-title">Break this lock?</h2>
      <p class="break-name">
        <code>
          <bdi>{shownName(lock.name)}</bdi>
        </code>
      </p>
      <p class="holder">
        <Status status={holder.status} /> <bdi>{whoIs(holder.client, holder.holder)}</bdi>
      </p>
      {result ? (
        <Outcome result={result} onClose={close} />
      ) : (
        <BreakForm lock={lock} holder={holder} onResult={setResult} onClose={close} />
      )}
    </dialog>
  )
}

interface BreakFormProps extends BreakDialogProps {
  onResult(result: UnlockReply): void
}

function BreakForm({ lock, holder, onResult, onClose }: BreakFormProps) {
  const [typed, setTyped] = useState('')
  const [reason, setReason] = useState('')
  const [anyway, setAnyway] = useState(false)
  const [quarantineS, setQuarantineS] = useState(0)
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const isReady = typed === shownName(lock.name) && reason.trim() !== ''
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (!isReady || isBusy) return
    setBusy(true)
    setError(undefined)
    const request = {
      id: lock.id,
      holder: holder.holder,
      reason: reason.trim(),
      graceMs: GRACE_MS,
      anyway,
      ...(anyway && quarantineS > 0 && { quarantineMs: quarantineS * 1_000 }),
    }
    await postUnlock(request).then(onResult, (failure: Error) => setError(visible(failure.message, MAX_ERROR)))
    setBusy(false)
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <p>{CONSEQUENCES[holder.status]}</p>
      {lock.holders.length > 1 && <p>The lock is not free then: others hold it as well, and keep it.</p>}
      <p class="muted">Data protected by a fencing token rejects the old holder in any case.</p>
      <label>
        Type the lock's name
        <input
          value={typed}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <label>
        Reason, for the audit
        <input
          value={reason}
          maxLength={MAX_REASON}
          placeholder="INC-4711"
          autocomplete="off"
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </label>
      <label class="check">
        <input type="checkbox" checked={anyway} onChange={(event) => setAnyway(event.currentTarget.checked)} />
        <span>
          Free it even if the holder does not react within {GRACE_MS / 1000} s.
          <span class="muted"> Otherwise nothing changes then.</span>
        </span>
      </label>
      {anyway && lock.kind !== NO_QUARANTINE && <Quarantine seconds={quarantineS} onChange={setQuarantineS} />}
      {error !== undefined && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="button danger solid" disabled={!isReady}>
          {isBusy ? 'Breaking …' : 'Break the lock'}
        </button>
      </div>
    </form>
  )
}

function Quarantine({ seconds, onChange }: { seconds: number; onChange(seconds: number): void }) {
  return (
    <label>
      Then keep it from everybody, for seconds
      <input
        type="number"
        min={0}
        max={MAX_QUARANTINE_S}
        value={seconds}
        onInput={({ currentTarget }) => onChange(currentTarget.valueAsNumber || 0)}
      />
      <span class="muted">A holder that is still at work notices its loss meanwhile.</span>
    </label>
  )
}

function Outcome({ result, onClose }: { result: UnlockReply; onClose(): void }) {
  const close = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => close.current?.focus(), [])
  return (
    <div role="status">
      <p class="outcome" data-outcome={result.outcome}>
        {describeOutcome(result)}
      </p>
      <div class="actions">
        <button type="button" class="button" ref={close} onClick={onClose}>
          Close
        </button>
      </div>
    </div>
  )
}

function describeOutcome({ outcome, holder }: UnlockReply): string {
  if (outcome === 'released') return 'Released by its holder.'
  if (outcome === 'freed') return 'Freed without its holder.'
  if (outcome === 'unreachable')
    return 'Nobody listens on the inbox of its holder. Nothing has changed: it still holds the lock.'
  if (outcome === 'silent') return 'Its holder did not react. Nothing has changed: it still holds the lock.'
  return holder === undefined
    ? 'It was not held by this holder any more. Nothing has changed.'
    : `Now held by ${visible(holder, MAX_ERROR)}. Nothing has changed.`
}

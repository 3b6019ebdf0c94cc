/** Texts that count up or down by themselves: only the changed text is written, without rendering anything. */
import { useRef } from 'preact/hooks'
import { useEveryFrame } from './clock.js'
import { formatDuration } from './format.js'

const BAR_STEPS = 40
const LOW = 0.2

/** How long ago `since` was, a `now()` of the clock. */
export function Elapsed({ since, prefix = '' }: { since: number; prefix?: string }) {
  return <Counting text={(now) => prefix + formatDuration(now - since)} />
}

export function Remaining({ until }: { until: number }) {
  return <Counting text={(now) => formatDuration(until - now)} />
}

function Counting({ text }: { text: (now: number) => string }) {
  const node = useRef<HTMLSpanElement>(null)
  const shown = useRef('')
  useEveryFrame((now) => {
    const next = text(now)
    if (next === shown.current || node.current === null) return
    shown.current = next
    node.current.textContent = next
  })
  return <span class="num" ref={node} />
}

/** A bar for the remaining lease. */
export function LeaseBar({ until, fullMs }: { until: number; fullMs: number }) {
  const bar = useRef<HTMLSpanElement>(null)
  const shown = useRef(-1)
  useEveryFrame((now) => {
    const part = Math.min(1, Math.max(0, (until - now) / fullMs))
    const step = Math.ceil(part * BAR_STEPS)
    if (step === shown.current || bar.current === null) return
    shown.current = step
    bar.current.style.transform = `scaleX(${step / BAR_STEPS})`
    bar.current.dataset['low'] = String(part < LOW)
  })
  return (
    <span class="lease-bar" aria-hidden="true">
      <span ref={bar} />
    </span>
  )
}

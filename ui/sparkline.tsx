import { useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { formatCount } from './format.js'
import { theme } from './theme.js'

const WIDTH = 190
const HEIGHT = 38
const SPAN_S = 15 * 60

interface SparklineProps {
  readonly unit: string
  /** `performance.now()` of each value. */
  readonly at: readonly number[]
  readonly values: readonly number[]
}

/** The last 15 minutes as a line, without axes; what it shows in words for who cannot see it. */
export function Sparkline({ unit, at, values }: SparklineProps) {
  const holder = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(null)
  useLayoutEffect(() => {
    if (holder.current === null) return
    const made = new uPlot(optionsFor(getComputedStyle(holder.current).color), [[], []], holder.current)
    chart.current = made
    return () => made.destroy()
  }, [theme.value])
  useLayoutEffect(() => {
    const end = at.at(-1) ?? 0
    chart.current?.setData([at.map((time) => (time - end) / 1000), [...values]])
  }, [at, values, theme.value])
  const now = values.at(-1) ?? 0
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  return (
    <div
      class="sparkline"
      ref={holder}
      role="img"
      aria-label={`${formatCount(now)} ${unit} now, ${formatCount(most)} at most in the last 15 minutes`}
      title={`now ${formatCount(now)}, at most ${formatCount(most)}`}
    />
  )
}

function optionsFor(color: string): uPlot.Options {
  return {
    width: WIDTH,
    height: HEIGHT,
    padding: [3, 0, 1, 0],
    cursor: { show: false },
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: {
      x: { time: false, range: [-SPAN_S, 0] },
      y: { range: (_, __, max) => [0, Math.max(1, max)] },
    },
    series: [
      {},
      { stroke: color, fill: color.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.14)'), width: 1.5, points: { show: false } },
    ],
  }
}

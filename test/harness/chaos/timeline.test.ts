/** The timeline of a chaos run is one small page that shows what was found, whatever the names in it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { timelineOf } from './timeline.js'
import type { Section } from './verdict.js'

const section = (from: number, to: number, more: Partial<Section> = {}): Section => ({
  ...{ kind: 'plain', lock: 'a', worker: 1, from, to },
  ...more,
})

describe('the timeline of a chaos run', () => {
  it('the timeline of a chaos run draws sections, faults and findings, and loads nothing', () => {
    const html = timelineOf(
      {
        sections: [section(1_000, 1_100), section(1_050, 1_200, { worker: 2, kind: 'fenced', token: '7' })],
        faults: [{ name: 'lost-reply', isOfServers: false, from: 1_000, to: 1_010 }],
        findings: [{ verdict: 'overlaps', lock: 'a', what: 'a: two at once', from: 1_000, to: 1_100 }],
      },
      'single',
    )
    for (const part of ['fenced, process 2, token 7: 150.0 ms', '⚡ lost-reply', 'a: two at once', 'class="wrong"'])
      assert(html.includes(part), part)
    assert.doesNotMatch(html, /https?:|src=|<script|<link/)
  })

  it('the timeline of a chaos run escapes every name', () => {
    const evil = '<script>"&\''
    const html = timelineOf(
      {
        sections: [section(1, 2, { lock: evil, kind: evil })],
        faults: [{ name: evil, isOfServers: true, from: 1, to: 2 }],
        findings: [{ verdict: 'failures', what: evil, lock: evil, from: 1, to: 2 }],
      },
      evil,
    )
    assert.doesNotMatch(html, /<script|"&'/)
  })

  it('the timeline of a chaos run stays below 2 MB for a long run, and shows the violation', () => {
    const sections = Array.from({ length: 200_000 }, (_, n) => section(n, n + 1, { lock: `chaos:plain:${n % 20}` }))
    const findings = [{ verdict: 'overlaps', what: 'here', lock: 'chaos:plain:1', from: 50_000, to: 50_001 }] as const
    const html = timelineOf({ sections, faults: [], findings }, 'long')
    assert(html.length < 2_000_000, String(html.length))
    assert(html.includes('<title>here</title>'))
  })

  it('the timeline of a chaos run is a page even if nothing happened', () => {
    assert.match(timelineOf({ sections: [], faults: [], findings: [] }, 'nothing'), /No findings/)
  })
})

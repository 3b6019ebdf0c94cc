// The spans `lock acquire` and `lock hold`.
import {
  type Attributes,
  context,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { KnownHolder } from '../holder-info.js'
import type { Hold } from '../locks/hold.js'
import type { HoldfastChannels } from '../locks/reporting/observation.js'
import { subscribeTo } from './channels.js'
import { missTypeOf } from './error-type.js'

type Request = HoldfastChannels['holdfast:request:grant']

/**
 * The spans `lock acquire`, of calls that waited or failed, and `lock hold`, inside which the function of `withLock` runs.
 * The first one is made when the call has ended, with the time at which it began: a lock that was free costs nothing.
 * @returns stops it
 */
export function traceLocks(tracer: Tracer): () => void {
  const spans = new WeakMap<Hold, Span>()
  return subscribeTo({
    'holdfast:request:grant': (request) => {
      const { hold } = request
      if (request.hasWaited) acquired(tracer, request).end()
      const span = tracer.startSpan('lock hold', { kind: SpanKind.INTERNAL })
      if (!hold || !span.isRecording()) return
      span.setAttributes(about(request))
      spans.set(hold, span)
      for (const member of hold.members) member.span = span.spanContext()
    },
    'holdfast:request:miss': (request) => {
      // A single try that finds the lock held has neither waited nor failed.
      if (request.reason === 'timeout' && !request.hasWaited) return
      const span = acquired(tracer, request)
      span.setAttribute('error.type', missTypeOf(request))
      span.setStatus({ code: SpanStatusCode.ERROR })
      if (request.error instanceof Error) span.recordException(request.error)
      span.end()
    },
    'holdfast:hold:run': (message) => {
      const span = spans.get(message.hold)
      if (!span) return
      const { wrap } = message
      message.wrap = (body) => context.with(trace.setSpan(context.active(), span), () => (wrap ? wrap(body) : body()))
    },
    'holdfast:hold:end': ({ hold, path, error }) => {
      const span = spans.get(hold)
      if (!span) return
      span.setAttribute('holdfast.hold.end', path)
      if (error) {
        span.setAttribute('holdfast.loss.reason', error.reason)
        span.recordException(error)
        span.setStatus({ code: SpanStatusCode.ERROR, message: error.message })
      }
      span.end()
    },
  })
}

function acquired(tracer: Tracer, request: Request): Span {
  const startTime = Date.now() - request.waitedMs
  const links = request.holders.flatMap(linkTo)
  return tracer.startSpan('lock acquire', { kind: SpanKind.INTERNAL, startTime, attributes: about(request), links })
}

/** To the span of somebody whom the call waited for, if its client has told which one that is. */
function linkTo({ holder, status, trace: traceId, span: spanId }: KnownHolder): Link[] {
  if (traceId === undefined || spanId === undefined) return []
  // Only recorded spans are reported. A holder with a status is in this process.
  const context = { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: status === undefined }
  return [{ context, attributes: { 'holdfast.holder': holder } }]
}

function about({ lockName, kind, label, path, hold }: Request): Attributes {
  return {
    'holdfast.lock.name': lockName,
    'holdfast.lock.kind': kind,
    ...(label === undefined ? {} : { 'holdfast.label': label }),
    ...(path === undefined ? {} : { 'holdfast.acquire.path': path }),
    ...(hold === undefined ? {} : { 'holdfast.holder': hold.holder }),
    ...(hold?.fencingToken === undefined ? {} : { 'holdfast.fencing_token': String(hold.fencingToken) }),
  }
}

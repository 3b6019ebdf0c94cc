/** Blocks the event loop of this thread. */
export function block(ms: number): void {
  const endsAt = performance.now() + ms
  while (performance.now() < endsAt);
}

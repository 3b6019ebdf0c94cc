/** Blocks the event loop of this thread, without computing: what else runs on the machine is not slower for it. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

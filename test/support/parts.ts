const [part, parts = 1] = (process.env['TEST_PART'] ?? '0/1').split('/').map(Number)

/** Where nothing runs side by side, as on Bun and Deno, several processes share a suite: whether this one has the part. */
export function isOurs(index: number): boolean {
  return index % parts === part
}

/** A pattern of Redis, such as `lock:*`, as a regular expression: `*`, `?`, `[ab]`, `[^a-c]`, and `\` before any of them. */
export function globToRegExp(pattern: string): RegExp {
  const source = pattern.replace(
    /\\([\s\S])|\[(\^?)((?:\\[\s\S]|[^\]\\])*)\]|([\s\S])/g,
    (_, escaped, not, set, other) => {
      if (escaped !== undefined) return quote(escaped)
      if (set !== undefined) return set === '' ? '(?!)' : `[${not}${set.replaceAll('[', '\\[')}]`
      if (other === '*') return '[\\s\\S]*'
      return other === '?' ? '[\\s\\S]' : quote(other)
    },
  )
  return new RegExp(`^${source}$`)
}

function quote(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}

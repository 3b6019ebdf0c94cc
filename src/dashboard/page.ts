// The files of the page.
import { pageFiles } from './page-files.js'

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
}
const NOT_BUILT = 'The page of the dashboard is not built. In a clone of the repository: npm run build\n'

/** The files of the page. They contain no data, so they need no token. */
export class Page {
  readonly #folder: URL
  /** By path, read with the first request: only what is in the folder can be requested. */
  #read: Map<string, Buffer<ArrayBuffer>> | undefined

  /** @param folder  its URL, ending in a slash: `index.html` and the folder `assets` */
  constructor(folder: URL) {
    this.#folder = folder
  }

  index(): Response {
    const content = this.#files.get('index.html')
    if (content) {
      const headers = { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' }
      return new Response(content, { headers })
    }
    return new Response(NOT_BUILT, { status: 503, headers: { 'content-type': 'text/plain; charset=utf-8' } })
  }

  /** @returns undefined: there is no such file */
  asset(name: string): Response | undefined {
    const content = this.#files.get(`assets/${name}`)
    const type = TYPES[/\.(\w+)$/.exec(name)?.[1] ?? '']
    if (!content || type === undefined) return undefined
    // A name with the hash of its content never changes its content.
    const caching = /-\w{8}\.\w+$/.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache'
    return new Response(content, { headers: { 'content-type': type, 'cache-control': caching } })
  }

  get #files(): Map<string, Buffer<ArrayBuffer>> {
    this.#read ??= pageFiles(this.#folder)
    return this.#read
  }
}

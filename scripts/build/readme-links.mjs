// npm shows README.md where its relative links lead nowhere. So `npm pack` and `npm publish` make them absolute before they
// pack (--absolute), to the pages of this version, and relative again afterwards (--relative).
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../run.mjs'

/** A link or a picture of Markdown or HTML that is neither an address nor a heading of the same page. */
const RELATIVE = /(\]\(|\b(?:href|src|srcset)=")(?![a-z]+:|[#/])([^)"\s]+)/g
const PICTURE = /\.(?:gif|jpe?g|png|svg|webp)$/
/** Code is no link. */
const CODE = /^```.*?^```$/gms

/** The repository of a package.json, as people open it: https://github.com/… */
export function repositoryOf({ repository }) {
  return repository.url.replace(/^git\+/, '').replace(/\.git$/, '')
}

export function absoluteLinks(text, pkg) {
  const { pages, pictures } = addressesOf(pkg)
  const absolute = (prose) =>
    prose.replace(RELATIVE, (_, before, path) => `${before}${PICTURE.test(path) ? pictures : pages}${path}`)
  const code = text.match(CODE) ?? []
  return text
    .split(CODE)
    .map((prose, at) => absolute(prose) + (code[at] ?? ''))
    .join('')
}

export function relativeLinks(text, pkg) {
  const { pages, pictures } = addressesOf(pkg)
  return text.replaceAll(pages, '').replaceAll(pictures, '')
}

function addressesOf(pkg) {
  const repository = repositoryOf(pkg)
  const raw = repository.replace('//github.com/', '//raw.githubusercontent.com/')
  return { pages: `${repository}/blob/v${pkg.version}/`, pictures: `${raw}/v${pkg.version}/` }
}

if (process.argv[1] === import.meta.filename) {
  const [form] = process.argv.slice(2)
  const pkg = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const convert = { '--absolute': absoluteLinks, '--relative': relativeLinks }[form]
  // npm packs those in other languages as well.
  const readmes = readdirSync(root).filter((file) => /^README\b.*\.md$/.test(file))
  for (const file of readmes) {
    writeFileSync(join(root, file), convert(readFileSync(join(root, file), 'utf8'), pkg))
  }
  // The same in every tarball, whatever the umask is.
  for (const file of [...readmes, 'LICENSE', 'package.json']) chmodSync(join(root, file), 0o644)
}

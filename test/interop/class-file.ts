// The texts in a class of a jar: there the scripts of Redisson are.
import { readFileSync } from 'node:fs'
import { inflateRawSync } from 'node:zlib'

/** The texts among the constants of a class, such as `org/redisson/RedissonLock`. */
export function textsOf(jar: string, className: string): string[] {
  const bytes = unzipped(readFileSync(jar), `${className}.class`)
  if (!bytes) throw new Error(`there is no ${className} in ${jar}`)
  return texts(bytes)
}

/** A file in an archive of the zip format. */
function unzipped(zip: Buffer, wanted: string): Buffer | undefined {
  const end = zip.lastIndexOf('PK\x05\x06') // the end of the directory says where the directory begins
  let at = zip.readUInt32LE(end + 16)
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [name = 0, extra = 0, comment = 0] = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset))
    if (zip.toString('utf8', at + 46, at + 46 + name) === wanted) {
      const file = zip.readUInt32LE(at + 42)
      const start = file + 30 + zip.readUInt16LE(file + 26) + zip.readUInt16LE(file + 28)
      const content = zip.subarray(start, start + zip.readUInt32LE(at + 20))
      return zip.readUInt16LE(at + 10) === 0 ? content : inflateRawSync(content)
    }
    at += 46 + name + extra + comment
  }
  return undefined
}

const UTF8 = 1
/** How long the constants of the other tags are. Java Virtual Machine Specification, 4.4. */
const SIZES: Readonly<Record<number, number>> = {
  ...{ 3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4 },
  ...{ 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2 },
}

function texts(classFile: Buffer): string[] {
  const found: string[] = []
  const count = classFile.readUInt16BE(8)
  for (let at = 10, index = 1; index < count; index++) {
    const tag = classFile.readUInt8(at++)
    if (tag === UTF8) {
      const end = at + 2 + classFile.readUInt16BE(at)
      found.push(classFile.toString('utf8', at + 2, end))
      at = end
    } else {
      const size = SIZES[tag]
      if (size === undefined) throw new Error(`a constant of the unknown kind ${tag}`)
      at += size
      if (size === 8) index++ // long and double count twice
    }
  }
  return found
}

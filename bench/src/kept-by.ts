import type { Release } from './library.js'

/** Of a library that keeps a lock only for the length of a function: begins one that ends with the release. */
export async function keptBy(run: (section: () => Promise<void>) => Promise<unknown>): Promise<Release> {
  return await new Promise((resolve, reject) => {
    const whole: Promise<unknown> = run(
      () =>
        new Promise<void>((end) => {
          resolve(async () => {
            end()
            await whole
          })
        }),
    )
    whole.catch(reject)
  })
}

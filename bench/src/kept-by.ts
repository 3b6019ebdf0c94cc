import type { Release } from './library.js'

/** For libraries that keep a lock only during a function: starts a function that ends with the release. */
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

/** A Nest application on a free port of 127.0.0.1. */
import type { AddressInfo } from 'node:net'
import type { INestApplication, ModuleMetadata } from '@nestjs/common'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'

export interface RunningApp extends AsyncDisposable {
  readonly app: INestApplication
  readonly url: string
  /** The status and the body of a request. */
  get(path: string): Promise<{ status: number; body: string }>
}

export async function startApp(metadata: ModuleMetadata): Promise<RunningApp> {
  class AppModule {}
  Module(metadata)(AppModule)
  const app = await NestFactory.create<NestExpressApplication>(AppModule, { logger: false, abortOnError: false })
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return {
    app,
    url,
    get: async (path) => {
      // A server that closes waits for connections that clients keep.
      const response = await fetch(url + path, { headers: { connection: 'close' } })
      return { status: response.status, body: await response.text() }
    },
    [Symbol.asyncDispose]: async () => await app.close(),
  }
}

/** A gate that callers wait at until it is opened. */
export class Gate {
  readonly opened: Promise<void>
  #open: () => void = () => {}

  constructor() {
    this.opened = new Promise((resolve) => (this.#open = resolve))
  }

  open(): void {
    this.#open()
  }
}

import type { Workload } from '../workload.js'
import { w7 } from './blocked.js'
import { w10 } from './burst.js'
import { CLUSTER_WORKLOADS } from './cluster.js'
import { w9 } from './far.js'
import { w5 } from './flash-sale.js'
import { w8 } from './forged.js'
import { KIND_WORKLOADS } from './kinds.js'
import { w3, w3b, w4 } from './one-lock.js'
import { w1, w2 } from './uncontended.js'
import { w6 } from './watched.js'

export const WORKLOADS: readonly Workload[] = [
  ...[w1, w2, w3, w3b, w4, w5, w6, w7, w8, w9, w10],
  ...CLUSTER_WORKLOADS,
  ...KIND_WORKLOADS,
]

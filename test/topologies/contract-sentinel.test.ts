import { contracts } from '../contract/everywhere.js'
import { sentinelDrivers } from '../support/drivers.js'
import { setUpSentinels } from '../support/places.js'

contracts('behind sentinels', sentinelDrivers, setUpSentinels)

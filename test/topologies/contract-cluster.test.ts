import { contracts } from '../contract/everywhere.js'
import { clusterDrivers } from '../support/drivers.js'
import { setUpCluster } from '../support/places.js'

contracts('in a cluster', clusterDrivers, setUpCluster)

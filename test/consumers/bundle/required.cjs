exports.requiredConnect = require('holdfast').connect

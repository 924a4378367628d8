'use strict';
// Every name is this machine, as a hosts file would have it: no resolver knows the made-up endpoint.
const dns = require('dns');

dns.lookup = (name, options, done) => {
  const given = typeof options === 'function' ? {} : options;
  const answer = done || options;
  given.all ? answer(null, [{ address: '127.0.0.1', family: 4 }]) : answer(null, '127.0.0.1', 4);
};

'use strict';
// The vendor's @alicloud/log: it writes, and knows neither shards nor pages nor groups.
const Client = require('@alicloud/log');
const { flags, put, run } = require('./talk');

const client = new Client({ accessKeyId: flags.id, accessKeySecret: flags.secret, endpoint: flags.endpoint });

run({
  project: (name) => client.createProject(name, { description: '' }),
  store: (name, shards) => client.createLogStore(flags.project, name, { ttl: 1, shardCount: Number(shards) }),
  read: (name) => client.getLogStore(flags.project, name),
  put: (store, prefix, count) =>
    put(store, prefix, Number(count), (_, logs) =>
      client.postLogStoreLogs(flags.project, store, {
        topic: prefix,
        source: '127.0.0.1',
        logs: logs.map((content) => ({ timestamp: Math.floor(Date.now() / 1000), content })),
      })),
});

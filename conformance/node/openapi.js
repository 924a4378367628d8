'use strict';
// The vendor's OpenAPI SDK in TypeScript. It puts and pulls through the SDK's `execute`: its own PutLogs sends
// no body, and its PullLogs forgets the project and takes the page for JSON.
const sls = require('@alicloud/sls20201230');
const { Config, Params, OpenApiRequest } = require('@alicloud/openapi-core').$OpenApiUtil;
const { RuntimeOptions } = require('@darabonba/typescript');
const { flags, tell, tellPage, put, run, LogGroup } = require('./talk');

const client = new sls.default(new Config({
  accessKeyId: flags.id, accessKeySecret: flags.secret, protocol: 'HTTP', regionId: 'emulated',
  endpoint: flags.endpoint.replace('http://', ''), signatureVersion: flags.sign,
}));
const project = flags.project, GROUPS_A_PULL = 10;

function call(action, method, pathname, headers, more, reqBodyType, bodyType) {
  const params = new Params({
    action, method, pathname, reqBodyType, bodyType, version: '2020-12-30', protocol: 'HTTPS', authType: 'AK',
    style: 'ROA',
  });
  const request = new OpenApiRequest({ hostMap: { project }, headers, ...more });
  return client.execute(params, request, new RuntimeOptions({}));
}

function send(store, topic, kind, key, contents) {
  const Time = Math.floor(Date.now() / 1000);
  const Logs = contents.map((log) => ({ Time, Contents: Object.entries(log).map(([Key, Value]) => ({ Key, Value })) }));
  const body = Buffer.from(LogGroup.encode(LogGroup.create({ Logs, Topic: topic, Source: '127.0.0.1' })).finish());
  const headers = { 'content-type': 'application/x-protobuf', 'x-log-compresstype': kind };
  return call('PutLogs', 'POST', `/logstores/${store}/shards/route?key=${key}`, headers, { body }, 'binary', 'none');
}

// Tells what stands between `from` and the end, which it returns.
async function read(store, shard, from, kind) {
  const at = async (where) =>
    (await client.getCursor(project, store, String(shard), new sls.GetCursorRequest({ from: where }))).body.cursor;
  let cursor = await at(from);
  const end = await at('end');
  while (cursor !== end) {
    const headers = { accept: 'application/x-protobuf', 'Accept-Encoding': kind };
    const query = { cursor, count: String(GROUPS_A_PULL) };
    const path = `/logstores/${store}/shards/${shard}?type=log`;
    const answer = await call('PullLogs', 'GET', path, headers, { query }, 'none', 'byte');
    tellPage(shard, answer.body);
    cursor = answer.headers['x-log-cursor'];
  }
  return end;
}

run({
  project: (projectName) => client.createProject(new sls.CreateProjectRequest({ projectName, description: '' })),
  store: (logstoreName, shards) =>
    client.createLogStore(project, new sls.CreateLogStoreRequest({ logstoreName, ttl: 1, shardCount: Number(shards) })),
  split: (store, shard, key) => client.splitShard(project, store, shard, new sls.SplitShardRequest({ key })),
  merge: (store, shard) => client.mergeShard(project, store, shard),
  put: (store, prefix, count, kind) =>
    put(store, prefix, Number(count), (key, logs) => send(store, prefix, kind, key, logs)),
  read: async (store, from, kind) => {
    for (const shard of (await client.listShards(project, store)).body) await read(store, shard.shardID, from, kind);
  },
  group: async (store, consumerGroup) => {
    const place = [project, store, consumerGroup];
    const made = new sls.CreateConsumerGroupRequest({ consumerGroup, timeout: 60, order: false });
    await client.createConsumerGroup(project, store, made);
    let held = [];
    for (let beat = 0; beat < 2; beat++) {
      const request = new sls.ConsumerGroupHeartBeatRequest({ consumer: 'me', body: held });
      held = (await client.consumerGroupHeartBeat(...place, request)).body;
    }
    const ends = {};
    for (const shard of held) {
      const checkpoint = ends[shard] = await read(store, shard, 'begin', 'lz4');
      const request = { checkpoint, shard, consumer: 'me', forceSuccess: false };
      const saved = new sls.ConsumerGroupUpdateCheckPointRequest(request);
      await client.consumerGroupUpdateCheckPoint(...place, saved);
    }
    const kept = (await client.getCheckPoint(...place, new sls.GetCheckPointRequest({}))).body;
    tell('kept', { right: kept.length > 0 && kept.every((c) => c.checkpoint === ends[c.shard]) });
  },
});

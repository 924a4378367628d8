'use strict';
// What both programs share: one command a line in, one JSON object a line out (conformance/program.py).
const path = require('path');
const readline = require('readline');
const protobuf = require('protobufjs');

const KEYS = 8, LOGS_A_GROUP = 3, TRIES = 60, PAUSE_MS = 250;
const proto = path.join(path.dirname(require.resolve('@alicloud/log')), 'lib', 'sls.proto');
const LogGroup = protobuf.loadSync(proto).lookupType('sls.LogGroup');
const Groups = new protobuf.Type('Groups').add(new protobuf.Field('groups', 1, 'LogGroup', 'repeated'));
LogGroup.parent.add(Groups);

const flags = {};
for (let i = 3; i < process.argv.length; i += 2) flags[process.argv[i].slice(2)] = process.argv[i + 1];
flags.id = process.env.ALIBABA_CLOUD_ACCESS_KEY_ID;
flags.secret = process.env.ALIBABA_CLOUD_ACCESS_KEY_SECRET;

const tell = (event, facts) => process.stdout.write(JSON.stringify({ event, ...facts }) + '\n');

function tellPage(shard, page) {
  for (const group of Groups.decode(page).groups) {
    for (const log of group.Logs) {
      const contents = Object.fromEntries(log.Contents.map((c) => [c.Key, c.Value]));
      tell('log', { shard, topic: group.Topic, source: group.Source, at: Date.now() * 1000, ...contents });
    }
  }
}

const next = {};
let retries = 0;

// The logs of `put`, three a group, each key to its shard; `send` takes a hash key and the contents.
async function put(store, prefix, count, send) {
  for (let done = 0; done < count; done += LOGS_A_GROUP) {
    for (let key = 0; key < KEYS; key++) {
      const name = `${prefix}-${key}`, first = next[`${store} ${name}`] || 0;
      const logs = [];
      for (let seq = first; seq < first + Math.min(LOGS_A_GROUP, count - done); seq++) {
        logs.push({ key: name, seq: String(seq), text: flags.text });
      }
      await once(() => send((2 * key).toString(16) + '0'.repeat(31), logs));
      next[`${store} ${name}`] = first + logs.length;
    }
  }
}

// Again after a failure that is not a refusal.
async function once(send) {
  for (let tried = 1; ; tried++) {
    try {
      return await send();
    } catch (failed) {
      if (refusal(failed).status || tried === TRIES) throw failed;
      retries++;
      await new Promise((go) => setTimeout(go, PAUSE_MS));
    }
  }
}

function refusal(failed) {
  const status = (failed.data && failed.data.statusCode) || failed.statusCode || (failed.requestid ? 400 : 0);
  return { status, code: failed.code || '', message: failed.message };
}

async function run(commands) {
  tell('started');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split(' ');
    try {
      await commands[command](...words);
      tell('done', { retries });
    } catch (failed) {
      tell('error', refusal(failed));
    }
  }
  tell('left');
}

module.exports = { flags, tell, tellPage, put, run, LogGroup };

//! `talk`, then flags: the vendor's Rust SDK, one command a line (conformance/program.py). It has no hash key for
//! a put, splits no shard, and signs v1 only.
use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aliyun_log_rust_sdk::get_cursor_models::CursorPos;
use aliyun_log_rust_sdk::{Client, Config, Error, FromConfig};
use aliyun_log_sdk_protobuf::{Log, LogGroup};
use serde_json::{json, Value};

const KEYS: usize = 8;
const LOGS_A_GROUP: usize = 3;
const GROUPS_A_PULL: i32 = 10;
const TRIES: u32 = 60;

fn tell(event: &str, mut facts: Value) {
    facts["event"] = json!(event);
    println!("{facts}");
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn refusal(failed: &Error) -> (u32, String, String) {
    match failed {
        Error::Server { error_code, error_message, http_status, .. } => {
            (*http_status, error_code.clone(), error_message.clone())
        }
        other => (0, String::new(), other.to_string()),
    }
}

struct Talker {
    client: Client,
    project: String,
    text: String,
    next: HashMap<String, usize>,
    retries: u32,
}

impl Talker {
    async fn obey(&mut self, words: &[&str]) -> Result<(), Error> {
        match words {
            ["project", name] => self.client.create_project(name).description("").send().await.map(drop),
            ["store", name, shards] => {
                let shards = shards.parse().unwrap();
                self.client.create_logstore(&self.project, name).shard_count(shards).ttl(1).send().await.map(drop)
            }
            ["put", store, prefix, count, _] => self.put(store, prefix, count.parse().unwrap()).await,
            ["read", store, from, _] => {
                let listed = self.client.list_shards(&self.project, store).send().await?;
                for shard in listed.get_body().shards() {
                    self.read(store, *shard.shard_id(), from).await?;
                }
                Ok(())
            }
            ["group", store, group] => self.group(store, group).await,
            _ => panic!("no such command: {words:?}"),
        }
    }

    async fn put(&mut self, store: &str, prefix: &str, count: usize) -> Result<(), Error> {
        for done in (0..count).step_by(LOGS_A_GROUP) {
            for key in 0..KEYS {
                let name = format!("{prefix}-{key}");
                let first = *self.next.get(&format!("{store} {name}")).unwrap_or(&0);
                let end = first + LOGS_A_GROUP.min(count - done);
                self.put_once(store, prefix, &name, first, end).await?;
                self.next.insert(format!("{store} {name}"), end);
            }
        }
        Ok(())
    }

    /// Puts one group, again after a failure that is not a refusal.
    async fn put_once(&mut self, store: &str, prefix: &str, name: &str, first: usize, end: usize) -> Result<(), Error> {
        for tried in 1.. {
            let mut group = LogGroup::new();
            group.set_topic(prefix).set_source("127.0.0.1");
            for seq in first..end {
                let mut log = Log::from_unixtime(now().as_secs() as u32);
                log.add_content_kv("key", name).add_content_kv("seq", seq.to_string());
                log.add_content_kv("text", self.text.as_str());
                group.add_log(log);
            }
            match self.client.put_logs(&self.project, store).log_group(group).send().await {
                Ok(_) => break,
                Err(failed) if (400..500).contains(&refusal(&failed).0) || tried == TRIES => return Err(failed),
                Err(_) => self.retries += 1,
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }

    async fn cursor(&self, store: &str, shard: i32, at: &str) -> Result<String, Error> {
        let place = match at {
            "begin" => CursorPos::Begin,
            "end" => CursorPos::End,
            seconds => CursorPos::UnixTimeStamp(seconds.parse().unwrap()),
        };
        let answer = self.client.get_cursor(&self.project, store, shard).cursor_pos(place).send().await?;
        Ok(answer.get_body().cursor().to_string())
    }

    /// Tells what stands between `from` and the end, which it returns.
    async fn read(&self, store: &str, shard: i32, from: &str) -> Result<String, Error> {
        let mut cursor = self.cursor(store, shard, from).await?;
        let end = self.cursor(store, shard, "end").await?;
        while cursor != end {
            let pulled = self.client.pull_logs(&self.project, store, shard).cursor(cursor).count(GROUPS_A_PULL);
            let answer = pulled.send().await?;
            let page = answer.get_body();
            for group in page.log_group_list() {
                for log in group.logs() {
                    let mut line = json!({
                        "shard": shard, "topic": group.topic(), "source": group.source(),
                        "at": now().as_micros() as u64,
                    });
                    for content in log.contents() {
                        line[content.key()] = json!(content.value());
                    }
                    tell("log", line);
                }
            }
            cursor = page.next_cursor().clone();
        }
        Ok(end)
    }

    async fn group(&self, store: &str, group: &str) -> Result<(), Error> {
        let (client, project) = (&self.client, &self.project);
        client.create_consumer_group(project, store, group).timeout(60).order(false).send().await?;
        let mut held = vec![];
        for _ in 0..2 {
            let beat = client.consumer_group_heartbeat(project, store, group).consumer("me").shards(held);
            held = beat.send().await?.get_body().shards().clone();
        }
        let mut ends = HashMap::new();
        for shard in held {
            let end = self.read(store, shard, "begin").await?;
            let saving = client.update_consumer_group_checkpoint(project, store, group).shard_id(shard);
            saving.consumer_id("me").checkpoint(&end).force_success(false).send().await?;
            ends.insert(shard, end);
        }
        let answer = client.get_consumer_group_checkpoint(project, store, group).send().await?;
        let kept = answer.get_body().checkpoints();
        let right = !kept.is_empty() && kept.iter().all(|c| ends.get(c.shard_id()) == Some(c.checkpoint()));
        tell("kept", json!({ "right": right }));
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let flags: HashMap<&str, &str> = words.chunks(2).map(|p| (p[0].trim_start_matches("--"), p[1].as_str())).collect();
    let key = |name: &str| std::env::var(format!("ALIBABA_CLOUD_ACCESS_KEY_{name}")).unwrap();
    let config = Config::builder().endpoint(flags["endpoint"]).access_key(key("ID"), key("SECRET")).build().unwrap();
    let client = Client::from_config(config).unwrap();
    let (project, text) = (flags["project"].to_string(), flags["text"].to_string());
    let mut talker = Talker { client, project, text, next: HashMap::new(), retries: 0 };
    tell("started", json!({}));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match talker.obey(&line.split(' ').collect::<Vec<_>>()).await {
            Ok(()) => tell("done", json!({ "retries": talker.retries })),
            Err(failed) => {
                let (status, code, message) = refusal(&failed);
                tell("error", json!({ "status": status, "code": code, "message": message }));
            }
        }
    }
    tell("left", json!({}));
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	sls "github.com/aliyun/aliyun-log-go-sdk"
)

const (
	keys        = 8
	logsAGroup  = 3
	groupsAPull = 10
	tries       = 60
	pause       = 250 * time.Millisecond
)

type talker struct {
	client  sls.ClientInterface
	project string
	text    string
	next    map[string]int
	retries int
}

// talk runs the vendor's client, one command a line; conformance/program.py lists them.
func talk(flags options) {
	client := &sls.Client{
		Endpoint:        flags.endpoint,
		AccessKeyID:     os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_ID"),
		AccessKeySecret: os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
		AuthVersion:     sls.AuthVersionType(flags.sign),
		Region:          "emulated",
	}
	t := &talker{client: client, project: flags.project, text: flags.text, next: map[string]int{}}
	tell("started", facts{})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := t.obey(strings.Split(lines.Text(), " ")); err != nil {
			tell("error", refusal(err))
		} else {
			tell("done", facts{"retries": t.retries})
		}
	}
	tell("left", facts{})
}

func (t *talker) obey(words []string) error {
	store := words[1]
	switch words[0] {
	case "project":
		_, err := t.client.CreateProject(store, "")
		return err
	case "store":
		return t.client.CreateLogStore(t.project, store, 1, number(words[2]), false, 64)
	case "put":
		return t.put(store, words[2], number(words[3]), compression(words[4]))
	case "read":
		return t.read(store, words[2], words[3])
	case "split":
		_, err := t.client.SplitShard(t.project, store, number(words[2]), words[3])
		return err
	case "merge":
		_, err := t.client.MergeShards(t.project, store, number(words[2]))
		return err
	}
	return fmt.Errorf("no such command: %s", words[0])
}

func (t *talker) put(store, prefix string, count, kind int) error {
	for done := 0; done < count; done += logsAGroup {
		for key := 0; key < keys; key++ {
			name := fmt.Sprintf("%s-%d", prefix, key)
			first := t.next[store+" "+name]
			size := min(logsAGroup, count-done)
			source := "127.0.0.1"
			group := &sls.LogGroup{Topic: &prefix, Source: &source}
			for seq := first; seq < first+size; seq++ {
				now := uint32(time.Now().Unix())
				group.Logs = append(group.Logs, &sls.Log{Time: &now, Contents: []*sls.LogContent{
					content("key", name), content("seq", strconv.Itoa(seq)), content("text", t.text),
				}})
			}
			hash := strconv.FormatInt(int64(2*key), 16) + strings.Repeat("0", 31)
			request := &sls.PostLogStoreLogsRequest{LogGroup: group, HashKey: &hash, CompressType: kind}
			if err := t.putOnce(store, request); err != nil {
				return err
			}
			t.next[store+" "+name] = first + size
		}
	}
	return nil
}

// putOnce puts one group, again after a failure that is not a refusal.
func (t *talker) putOnce(store string, request *sls.PostLogStoreLogsRequest) error {
	for try := 1; ; try++ {
		err := t.client.PostLogStoreLogsV2(t.project, store, request)
		if err == nil {
			return nil
		}
		var told *sls.Error
		refused := errors.As(err, &told) && told.HTTPCode >= 400 && told.HTTPCode < 500
		if refused || try == tries {
			return err
		}
		t.retries++
		time.Sleep(pause)
	}
}

// read tells what stands between `from` and the end, shard by shard.
func (t *talker) read(store, from, kind string) error {
	shards, err := t.client.ListShards(t.project, store)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		cursor, err := t.client.GetCursor(t.project, store, shard.ShardID, from)
		if err != nil {
			return err
		}
		end, err := t.client.GetCursor(t.project, store, shard.ShardID, "end")
		if err != nil {
			return err
		}
		for cursor != end {
			groups, meta, err := t.client.PullLogsWithQuery(&sls.PullLogRequest{
				Project: t.project, Logstore: store, ShardID: shard.ShardID, Cursor: cursor,
				LogGroupMaxCount: groupsAPull, CompressType: compression(kind),
			})
			if err != nil {
				return err
			}
			tellLogs(shard.ShardID, groups)
			cursor = meta.NextCursor
		}
	}
	return nil
}

func refusal(err error) facts {
	var told *sls.Error
	if errors.As(err, &told) {
		return facts{"status": told.HTTPCode, "code": told.Code, "message": told.Message}
	}
	var bad *sls.BadResponseError
	if errors.As(err, &bad) {
		return facts{"status": bad.HTTPCode, "code": "", "message": bad.RespBody}
	}
	return facts{"status": 0, "code": "", "message": err.Error()}
}

func content(key, value string) *sls.LogContent {
	return &sls.LogContent{Key: &key, Value: &value}
}

func compression(kind string) int {
	return map[string]int{"lz4": sls.Compress_LZ4, "none": sls.Compress_None, "zstd": sls.Compress_ZSTD}[kind]
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}

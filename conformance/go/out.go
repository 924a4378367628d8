package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	sls "github.com/aliyun/aliyun-log-go-sdk"
)

var outLock sync.Mutex

// facts are the names and values of one line.
type facts map[string]any

// tell writes one JSON object on a line of standard output, at once.
func tell(event string, line facts) {
	line["event"] = event
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	outLock.Lock()
	defer outLock.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// tellLogs tells every log: its contents, the shard, topic and source, and when (microseconds).
func tellLogs(shard int, groups *sls.LogGroupList) {
	for _, group := range groups.LogGroups {
		for _, log := range group.Logs {
			line := facts{
				"shard": shard, "topic": group.GetTopic(), "source": group.GetSource(),
				"at": time.Now().UnixMicro(),
			}
			for _, content := range log.Contents {
				line[content.GetKey()] = content.GetValue()
			}
			tell("log", line)
		}
	}
}

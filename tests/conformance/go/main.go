// The vendor's Go consumer library, unmodified. Arguments: project, logstore, group, consumer.
// The emulator is its HTTP proxy. Prints `log SHARD KEY NUMBER`; leaves when standard input closes.
package main

import (
    "fmt"
    "io"
    "os"

    sls "github.com/aliyun/aliyun-log-go-sdk"
    consumer "github.com/aliyun/aliyun-log-go-sdk/consumer"
)

func main() {
    worker := consumer.InitConsumerWorkerWithCheckpointTracker(consumer.LogHubConfig{
        Endpoint:                  "http://sls.emu",
        AccessKeyID:               "emulator-key",
        AccessKeySecret:           "emulator-secret",
        Project:                   os.Args[1],
        Logstore:                  os.Args[2],
        ConsumerGroupName:         os.Args[3],
        ConsumerName:              os.Args[4],
        CursorPosition:            consumer.BEGIN_CURSOR,
        HeartbeatIntervalInSecond: 1,
        HeartbeatTimeoutInSecond:  6,
        InOrder:                   true,
    }, process)
    worker.Start()
    io.Copy(io.Discard, os.Stdin)
    worker.StopAndWait()
    fmt.Println("left")
}

func process(shard int, groups *sls.LogGroupList, tracker consumer.CheckPointTracker) (string, error) {
    for _, group := range groups.LogGroups {
        for _, log := range group.Logs {
            pairs := map[string]string{}
            for _, content := range log.Contents {
                pairs[content.GetKey()] = content.GetValue()
            }
            fmt.Println("log", shard, pairs["key"], pairs["n"])
        }
    }
    return "", tracker.SaveCheckPoint(true)
}

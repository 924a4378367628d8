package main

import (
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	sls "github.com/aliyun/aliyun-log-go-sdk"
	consumer "github.com/aliyun/aliyun-log-go-sdk/consumer"
	"github.com/go-kit/kit/log"
)

// consume runs the vendor's group consumer. It tells every log it is given and saves the checkpoint
// after each batch; it leaves when standard input closes or on SIGTERM.
func consume(flags options) {
	config := consumer.LogHubConfig{
		Endpoint:                  flags.endpoint,
		AccessKeyID:               os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_ID"),
		AccessKeySecret:           os.Getenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
		Project:                   flags.project,
		Logstore:                  flags.store,
		ConsumerGroupName:         flags.group,
		ConsumerName:              flags.consumer,
		InOrder:                   flags.order,
		HeartbeatIntervalInSecond: flags.heartbeatS,
		HeartbeatTimeoutInSecond:  flags.timeoutS,
		CompressType:              compression(flags.compress),
		AuthVersion:               sls.AuthVersionType(flags.sign),
		Region:                    "emulated",
		Logger:                    log.NewLogfmtLogger(log.NewSyncWriter(os.Stderr)),
	}
	switch flags.from {
	case "begin":
		config.CursorPosition = consumer.BEGIN_CURSOR
	case "end":
		config.CursorPosition = consumer.END_CURSOR
	default:
		seconds, err := strconv.ParseInt(flags.from, 10, 64)
		if err != nil {
			panic(err)
		}
		config.CursorPosition, config.CursorStartTime = consumer.SPECIAL_TIMER_CURSOR, seconds
	}
	worker := consumer.InitConsumerWorkerWithCheckpointTracker(config, process)
	worker.Start()
	tell("started", facts{})

	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGTERM)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		leave <- syscall.SIGTERM
	}()
	<-leave
	worker.StopAndWait()
	tell("left", facts{})
}

func process(shard int, groups *sls.LogGroupList, tracker consumer.CheckPointTracker) (string, error) {
	tellLogs(shard, groups)
	if err := tracker.SaveCheckPoint(true); err != nil {
		tell("unsaved", facts{"shard": shard, "message": err.Error()})
	}
	return "", nil
}

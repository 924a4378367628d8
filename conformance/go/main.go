// Small programs with the vendor's Go library: `talk` or `consume`, then flags.
package main

import (
	"flag"
	"os"
)

type options struct {
	endpoint, project, store, text string
	group, consumer, from          string
	sign, compress                 string
	order                          bool
	heartbeatS, timeoutS           int
}

func main() {
	var given options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&given.endpoint, "endpoint", "http://sls.emu", "the service; http_proxy leads to it")
	flags.StringVar(&given.project, "project", "", "")
	flags.StringVar(&given.store, "store", "", "logstore, for consume")
	flags.StringVar(&given.text, "text", "", "a content of every log that talk puts")
	flags.StringVar(&given.group, "group", "", "consumer group")
	flags.StringVar(&given.consumer, "consumer", "", "name of this consumer")
	flags.StringVar(&given.from, "from", "begin", "begin, end or unix seconds")
	flags.StringVar(&given.sign, "sign", "v1", "v1 or v4")
	flags.StringVar(&given.compress, "compress", "lz4", "lz4, zstd or none")
	flags.BoolVar(&given.order, "order", false, "parents before children")
	flags.IntVar(&given.heartbeatS, "heartbeat-s", 1, "")
	flags.IntVar(&given.timeoutS, "timeout-s", 6, "of the group")
	flags.Parse(os.Args[2:])
	if os.Args[1] == "consume" {
		consume(given)
	} else {
		talk(given)
	}
}

module conformance

go 1.22

require (
    github.com/aliyun/aliyun-log-go-sdk v0.1.124
    github.com/go-kit/kit v0.10.0
)

require (
    github.com/cenkalti/backoff v2.2.1+incompatible // indirect
    github.com/go-logfmt/logfmt v0.5.1 // indirect
    github.com/gogo/protobuf v1.3.2 // indirect
    github.com/golang/protobuf v1.5.2 // indirect
    github.com/klauspost/compress v1.17.8 // indirect
    github.com/pierrec/lz4/v4 v4.1.22 // indirect
    github.com/pkg/errors v0.9.1 // indirect
    go.uber.org/atomic v1.10.0 // indirect
    golang.org/x/net v0.1.0 // indirect
    google.golang.org/protobuf v1.28.1 // indirect
    gopkg.in/natefinch/lumberjack.v2 v2.0.0 // indirect
)

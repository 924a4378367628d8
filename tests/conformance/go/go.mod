module conformance

go 1.21

require github.com/aliyun/aliyun-log-go-sdk v0.1.124

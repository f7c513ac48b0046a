module github.com/conclave-project/conclave/test/interop/gozk

go 1.26

require github.com/go-zookeeper/zk v1.0.4

module github.com/conclave-project/conclave/test/stores/src/etcd

go 1.26

require (
	go.etcd.io/etcd/etcdctl/v3 v3.7.3
	go.etcd.io/etcd/server/v3 v3.7.3
)

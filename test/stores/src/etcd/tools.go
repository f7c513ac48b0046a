//go:build tools

// Package etcd names the programs that are built for tests: the server and etcdctl.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)

//go:build tools

// Package etcd names what is built for tests: the server and its etcdctl.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)

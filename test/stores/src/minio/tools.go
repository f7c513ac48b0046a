//go:build tools

// Package minio names the second S3 server that tests start. Its licence is AGPL: it runs
// as a separate process, and none of our programs link it.
package minio

import _ "github.com/minio/minio"

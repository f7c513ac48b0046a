//go:build tools

// Package minio names the second S3 server that tests start. Its licence is
// AGPL: it runs as a process of its own, and nothing of ours links it.
package minio

import _ "github.com/minio/minio"

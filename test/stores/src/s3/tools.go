//go:build tools

// Package s3 names the S3 server that tests start: versitygw on a directory.
package s3

import _ "github.com/versity/versitygw/cmd/versitygw"

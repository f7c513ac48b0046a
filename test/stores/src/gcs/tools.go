//go:build tools

// Package gcs names the emulator of Google Cloud Storage that tests start.
package gcs

import _ "github.com/fsouza/fake-gcs-server"

//go:build !linux

package peernet

import (
	"net"
	"time"
)

// endUnacknowledged does nothing: the system's own limits apply.
func endUnacknowledged(net.Conn, time.Duration) {}

//go:build !linux

package awaittest

import "time"

var began = time.Now()

// spent is the time that has passed: nothing tells of a thread.
func spent() time.Duration { return time.Since(began) }

//go:build !linux

package awaittest

import "time"

var began = time.Now()

// spent returns the time that has passed, because this system does not report a
// thread's.
func spent() time.Duration { return time.Since(began) }

package awaittest

import (
	"runtime"
	"time"
)

// Cost returns the processor time of the prepared function, the least of three runs, without
// other load of the machine. It is for comparing the cost of a large input with that of a small
// one.
func Cost(prepare func() (do func())) (least time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 3 {
		do := prepare()
		began := spent()
		do()
		if took := spent() - began; i == 0 || took < least {
			least = took
		}
	}
	return least
}

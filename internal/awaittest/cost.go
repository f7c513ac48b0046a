package awaittest

import (
	"runtime"
	"time"
)

// Cost returns how long a processor is at what was prepared, the least of three times: what else
// the machine does is not in it. It is for the cost of much beside that of little.
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

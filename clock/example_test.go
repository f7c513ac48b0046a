package clock_test

import (
	"fmt"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// A manual clock fires a timer when a test moves it to the timer's instant.
func ExampleManual() {
	c := clock.NewManual(0)
	timer := c.Timer(c.Now().Add(time.Minute))
	c.Advance(time.Minute)
	<-timer.C()
	fmt.Println(time.Duration(c.Now()))
	// Output: 1m0s
}

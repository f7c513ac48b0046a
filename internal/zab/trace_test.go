package zab_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/tracetest"
	"github.com/conclave-project/conclave/internal/zab/zabtest"
)

// TestTraces plays every story in testdata; zabtest.Script lists the commands.
func TestTraces(t *testing.T) {
	tracetest.Run(t, func(t *testing.T, story string) string {
		got, err := zabtest.Script(story)
		if err != nil {
			t.Fatal(err)
		}
		return got
	})
}

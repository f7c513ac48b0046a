package raft_test

import (
	"testing"

	"github.com/conclave-project/conclave/algo/algotest"
	"github.com/conclave-project/conclave/internal/tracetest"
)

func TestTraces(t *testing.T) {
	tracetest.Run(t, func(t *testing.T, story string) string {
		text, err := algotest.Play(founded(nil), story)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
}

package bully_test

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
	"github.com/conclave-project/conclave/algo/registry"
	"github.com/conclave-project/conclave/internal/tracetest"
)

func TestTraces(t *testing.T) {
	tracetest.Run(t, func(t *testing.T, story string) string {
		text, err := algotest.Play(maker(t), story)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
}

func maker(t *testing.T) algotest.Founder {
	algorithm, err := registry.Get("bully")
	if err != nil {
		t.Fatal(err)
	}
	return func(members []algo.ID) algotest.Maker {
		return func(nowMs int64, id algo.ID, _ algo.State, seed uint64) algo.Machine {
			return algorithm.New(nowMs, registry.Options{ID: id, Members: members, LeaseMs: 100, Seed: seed})
		}
	}
}

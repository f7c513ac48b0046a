package etcd

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

func TestFenceTakesNoLeadershipOfAnotherStore(t *testing.T) {
	if _, err := Fence(election.Leadership{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the zero Leadership: %v", err)
	}
}

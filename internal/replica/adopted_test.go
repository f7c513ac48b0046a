package replica

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/zk"
)

// A server that looks takes over a newer configuration of its own ensemble: one with a host of those that
// are in force, of an epoch that can have come.
func TestConfigurationOfAnotherEnsembleIsNotAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		version int64
		hosts   string
		adopted bool
	}{
		"its own":              {9, "10.0.0.", true},
		"of other machines":    {9, "10.9.9.", false},
		"of an epoch far away": {int64(zk.MakeZxid(1<<21, 9)), "10.0.0.", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWavering(t)
			text := strings.ReplaceAll(w.config(c.version, false).Text(), "10.0.0.", c.hosts)
			n := fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: 1}, Round: 1, Version: 2, Config: text, ConfigVersion: c.version}
			w.step(Event{Kind: EventNotification, Server: 1, Notification: &n})
			if got := w.r.Config().Version; (got == c.version) != c.adopted {
				t.Errorf("the version in force is %x, that of server 1 %x", got, c.version)
			}
		})
	}
}

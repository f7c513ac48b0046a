package replica

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A server that looks takes over a newer configuration of its own ensemble: it must have a host
// of those in force, and an epoch that is possible.
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

// Of the configurations that others have announced while this server had a role, the newest one
// counts. Each server announces it once.
func TestNewestConfigurationThatCameBeforeAnElectionIsAdopted(t *testing.T) {
	for name, versions := range map[string][2]int64{
		"first": {9, 5}, "last": {5, 9}, "beside one that is no use": {9, int64(zk.MakeZxid(1<<21, 9))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWavering(t)
			w.step(elects()...)
			for at, version := range versions {
				n := fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: 1, Epoch: 1}, Round: 1, Version: 2,
					Config: w.config(version, false).Text(), ConfigVersion: version}
				w.step(Event{Kind: EventNotification, Server: quorum.ID(at + 1), Notification: &n})
			}
			w.step(Event{Kind: EventLinkDown})
			w.nowMs += 1000
			w.step(Event{Kind: EventTick})
			if got := w.r.Config().Version; got != 9 {
				t.Errorf("the version in force is %x", got)
			}
		})
	}
}

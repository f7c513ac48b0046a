//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// A seat is the server of an ensemble on which a script is played.
type seat struct {
	role   string
	locals bool // sessions are local, and upgraded
}

var seats = []seat{{"leader", false}, {"leader", true}, {"follower", false}, {"follower", true}, {"observer", false}, {"observer", true}}

func (at seat) String() string {
	return at.role + " of an ensemble" + when(at.locals, ", with local sessions")
}

// seatRequests is how many requests the script of a seat has.
const seatRequests = 1000

// seatConfig has a learner in step for longer than a busy machine takes.
var seatConfig = []string{"initLimit=100", "syncLimit=100"}

// seatEpoch is that of an ensemble in which one election was enough. Leaders of both kinds
// answer otherwise before its first transaction, see docs/differences.md.
const seatEpoch = 1

// errEpoch is why a script has to be played on another ensemble.
var errEpoch = errors.New("diff: more than one election")

// compareEnsembles plays a script in each seat of an ensemble of each kind.
func compareEnsembles(ctx context.Context, kinds [2]servers.Kind, seed uint64) (requests int, same bool, err error) {
	same = true
	for i, at := range seats {
		s := generateInEnsemble(seed+uint64(i), seatRequests)
		var said [2]transcript
		for k, kind := range kinds {
			for again := true; again; again = errors.Is(err, errEpoch) {
				said[k], err = at.play(ctx, kind, s)
			}
			if err != nil {
				return requests, false, fmt.Errorf("%s, %s: %w", at, kind.Name(), err)
			}
		}
		requests += len(s.steps)
		if d := firstDifference(said[0], said[1]); d >= 0 {
			same = false
			fmt.Printf("%s: differs at step %d: %s\n%s", at, d, s.at(d),
				describe(said[0], said[1], d, [2]string{kinds[0].Name(), kinds[1].Name()}))
			continue
		}
		fmt.Printf("%s: %d steps equal\n", at, len(s.steps))
	}
	return requests, same, nil
}

// play plays the script on a fresh ensemble of two participants and an observer.
func (at seat) play(ctx context.Context, kind servers.Kind, s *script) (out transcript, err error) {
	const observer = 3
	o := servers.EnsembleOptions{
		Kinds: []servers.Kind{kind, kind, kind}, Observers: []int{observer}, Config: slices.Concat(commonConfig, seatConfig),
		Properties: map[string]string{"znode.container.checkIntervalMs": fmt.Sprint(never)}, HeapMiB: 128, JavaFlags: javaFlags,
	}
	if at.locals {
		o.Config = append(o.Config, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
	}
	err = servers.WithEnsemble(ctx, o, func(e *servers.Ensemble, leader *servers.Member) error {
		m := leader
		switch at.role {
		case "follower":
			m = e.Member(observer - leader.ID)
		case "observer":
			m = e.Member(observer)
		}
		status, err := leader.Status()
		switch {
		case err != nil:
			return err
		case zk.Zxid(status.Zxid).Epoch() > seatEpoch:
			return errEpoch
		}
		out, err = play(m.Addr, s, nil)
		return err
	})
	return out, err
}

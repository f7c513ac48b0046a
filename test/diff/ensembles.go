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

// A seat is the server of an ensemble on which a script is played, or all of them.
type seat struct {
	role   string
	locals bool // sessions are local, and upgraded if necessary
}

var seats = []seat{{"leader", false}, {"leader", true}, {"follower", false}, {"follower", true}, {"observer", false}, {"observer", true},
	{everyServer, false}, {everyServer, true}}

// everyServer is the role in which the sessions of a script move between all servers.
const everyServer = "every server"

func (at seat) String() string {
	return at.role + " of an ensemble" + when(at.locals, ", with local sessions")
}

// seatRequests is the number of requests in the script for a seat.
const seatRequests = 1000

// seatConfig lets a learner be silent for longer than a busy machine takes.
var seatConfig = []string{"initLimit=100", "syncLimit=100"}

// seatEpoch is the epoch of an ensemble with only one election. Leaders of the two kinds
// answer differently before their first transaction, see docs/differences.md.
const seatEpoch = 1

// errEpoch is the error if a script must be played again on another ensemble.
var errEpoch = errors.New("diff: more than one election")

// compareEnsembles plays a script in each seat of one ensemble of each kind.
func compareEnsembles(ctx context.Context, kinds [2]servers.Kind, seed uint64) (requests int, same bool, err error) {
	same = true
	for i, at := range seats {
		among := 1
		if at.role == everyServer {
			among = 3
		}
		s := generateInEnsemble(seed+uint64(i), seatRequests, among)
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
		follower := e.Member(observer - leader.ID)
		addrs := []string{leader.Addr}
		switch at.role {
		case "follower":
			addrs = []string{follower.Addr}
		case "observer":
			addrs = []string{e.Member(observer).Addr}
		case everyServer:
			addrs = append(addrs, follower.Addr, e.Member(observer).Addr)
		}
		status, err := leader.Status()
		switch {
		case err != nil:
			return err
		case zk.Zxid(status.Zxid).Epoch() > seatEpoch:
			return errEpoch
		}
		out, err = play(addrs, s, nil, nil)
		return err
	})
	return out, err
}

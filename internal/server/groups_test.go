package server

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// TestOtherIdentitiesAreHeldToTheirPace: an identity that a connection no longer has does not
// limit it, and what others have asked for under that identity is not forgotten.
func TestOtherIdentitiesAreHeldToTheirPace(t *testing.T) {
	s := &Server{}
	s.cfg.Clock = clock.NewManual(0)
	s.cfg.Throttle.Rates = RateLimits{Session: RateLimit{Requests: 5}, Identity: RateLimit{Requests: 10}}
	shop, bank := zk.Identity{Scheme: "x509", ID: "shop"}, zk.Identity{Scheme: "x509", ID: "bank"}
	c := &conn{server: s}
	c.holdToPace([]zk.Identity{{Scheme: "ip", ID: "10.0.0.1"}, shop})
	of := s.paces.all[shop]
	of.spend(0, 100)
	c.holdToPaces([]zk.Identity{bank, shop})
	if s.paces.all[shop] != of || of.conns != 1 || s.paces.all[bank].conns != 1 || !slices.Equal(c.rare.paces.shared, []zk.Identity{bank, shop}) {
		t.Errorf("%+v, %+v", s.paces.all, c.rare.paces.shared)
	}
	if !slices.Equal(c.rare.paces.all, []*pace{&c.rare.paces.session, &s.paces.all[bank].pace, &of.pace}) {
		t.Errorf("held to %v", c.rare.paces.all)
	}
	c.holdToPaces([]zk.Identity{bank})
	if s.paces.all[shop] != nil || len(c.rare.paces.all) != 2 {
		t.Errorf("%+v, %+v", s.paces.all, c.rare.paces.all)
	}
	c.leavePaces()
	if len(s.paces.all) > 0 {
		t.Errorf("%+v", s.paces.all)
	}
}

//go:build linux && applications

package applications

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHelix kills participants, the leading controller of a cluster of Helix, and leaders of the ensemble.
func TestHelix(t *testing.T) {
	s := newScene(t)
	classPath := jars(t, "helix")
	driver := absolute(t, "java/Helix.java")
	spawn := func(name, kind string) *program {
		return java(t, name, classPath, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzk.session.timeout=6000",
			driver, kind, s.addrs(), name)
	}
	s.step("set up", func() { spawn("setup", "setup").await("set up") })
	watch := spawn("watch", "watch")
	controllers, participants := map[string]*program{}, map[string]*program{}
	for n := range 2 {
		name := fmt.Sprintf("controller%d", n)
		controllers[name] = spawn(name, "controller")
	}
	for n := range 3 {
		name := fmt.Sprintf("participant%d", n)
		participants[name] = spawn(name, "participant")
	}
	s.step("all partitions have a leader and a standby", func() { awaitWhole(s, watch, "", 3) })
	s.figures("under load")
	moves := func() (n int) {
		for _, p := range participants {
			n += len(p.matches("(r_[0-9]+ [A-Z]+ to [A-Z]+)"))
		}
		return n
	}
	// quiet waits until there was no transition for longer than a session lasts without its server.
	quiet := func() {
		last, since := moves(), time.Now()
		eventually(s.t, "no transition for 8 seconds", func() error {
			if now := moves(); now != last {
				last, since = now, time.Now()
			}
			if time.Since(since) < 8*time.Second {
				return fmt.Errorf("%d transitions so far", last)
			}
			return nil
		})
	}
	quiet()
	before := moves()
	for range 2 {
		s.step("kill the ensemble's leader", func() {
			s.killLeader()
			quiet()
			awaitWhole(s, watch, "", 3)
		})
	}
	s.step("rolling restart", func() {
		s.restartAll(func() {})
		quiet()
		awaitWhole(s, watch, "", 3)
	})
	if now := moves(); now != before {
		t.Errorf("%d transitions while nothing happened to a participant", now-before)
	}
	for _, name := range []string{"participant0", "participant1"} {
		s.step("kill a participant", func() {
			participants[name].kill()
			awaitWhole(s, watch, "", 2)
		})
		s.step("it comes back", func() {
			participants[name] = spawn(name, "participant")
			awaitWhole(s, watch, "", 3)
		})
	}
	for range 2 {
		leading := awaitWhole(s, watch, "", 3)
		s.step("kill the leading controller and the ensemble's leader", func() {
			controllers[leading].kill()
			s.killLeader()
			awaitWhole(s, watch, leading, 3)
		})
		// The controller that leads now must act.
		s.step("kill a participant", func() {
			participants["participant2"].kill()
			awaitWhole(s, watch, leading, 2)
		})
		participants["participant2"] = spawn("participant2", "participant")
		controllers[leading] = spawn(leading, "controller")
		awaitWhole(s, watch, leading, 3)
	}
	s.figures("at the end")
}

// awaitWhole waits until all partitions have one leader and one standby on so many participants, and a controller
// leads that is not the given one, and returns its name.
func awaitWhole(s *scene, watch *program, not string, live int) string {
	s.t.Helper()
	var name string
	eventually(s.t, fmt.Sprintf("a whole view with %d participants and a controller other than %q", live, not), func() error {
		views := watch.matches("(view: .*)")
		if len(views) == 0 {
			return fmt.Errorf("no view yet")
		}
		last := views[len(views)-1]
		var lead string
		if _, err := fmt.Sscanf(last, "view: controller %s", &lead); err != nil {
			return err
		}
		name = lead[:len(lead)-1]
		if name == "none" || name == not || strings.Count(last, "participant") != live || !strings.HasSuffix(last, "leaders 8, standbys 8, whole 8") {
			return fmt.Errorf("%s", last)
		}
		return nil
	})
	return name
}

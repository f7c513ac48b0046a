package zoocfg

import (
	"strings"
	"testing"
	"time"
)

// Clients and servers exchange milliseconds in 32 bits: if a number of ticks exceeds that,
// the start is refused, because otherwise no client would get a session.
func TestTicksThatMakeTooLongATimeAreRefused(t *testing.T) {
	const longest = "longer than 2147483647 ms"
	for lines, want := range map[string]string{
		"tickTime=107374182": "",
		"tickTime=107374183": "zoo.cfg:3: tickTime: 107374183 ms make a session of 2147483660 ms where maxSessionTimeout is not set, " +
			longest + ": set fewer, or maxSessionTimeout",
		"tickTime=1073741823\nmaxSessionTimeout=2147483647": "",
		"tickTime=1073741824\nmaxSessionTimeout=2147483647": "zoo.cfg:3: tickTime: 1073741824 ms make a session of 2147483648 ms where minSessionTimeout is not set, " +
			longest + ": set fewer, or minSessionTimeout",
		"tickTime=2147483647\nminSessionTimeout=1\nmaxSessionTimeout=2147483647": "",
	} {
		if _, err := read(t, lines); told(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, err, want)
		}
	}
	for lines, want := range map[string]string{
		"tickTime=2000\ninitLimit=1073741\nsyncLimit=1073741\n": "",
		"tickTime=2000\ninitLimit=1073742\nsyncLimit=5\n":       "/etc/zoo.cfg:3: initLimit: 1073742 ticks of 2000 ms are " + longest + ": set fewer, or a shorter tickTime",
		"tickTime=1\ninitLimit=2147483647\nsyncLimit=5\n":       "",
		"tickTime=5000\ninitLimit=10\nsyncLimit=2147483647\n":   "/etc/zoo.cfg:4: syncLimit: 2147483647 ticks of 5000 ms are " + longest + ": set fewer, or a shorter tickTime",
	} {
		if _, err := member(t, "dataDir=/data\n"+lines+servers, nil); told(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, err, want)
		}
	}
}

// told returns the text of an error, "" for nil.
func told(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// A session limit of 0 is not the default, which is -1, as in Apache ZooKeeper.
func TestSessionBoundsOfZeroAreNotTheDefaults(t *testing.T) {
	c, err := read(t, "minSessionTimeout=0")
	if err != nil || c.Server.SessionMin != time.Millisecond {
		t.Errorf("the shortest session is %v, %v", c.Server.SessionMin, err)
	}
	const none = "maxSessionTimeout: the shortest session (6000 ms) is longer than the longest (0 ms)"
	if _, err := read(t, "maxSessionTimeout=0"); told(err) != "zoo.cfg:3: "+none {
		t.Errorf("the longest session is none: %v", err)
	}
	c, err = read(t, "minSessionTimeout=-1", "maxSessionTimeout=-1")
	if err != nil || c.Server.SessionMin != 0 || c.Server.SessionMax != 0 {
		t.Errorf("%v to %v, %v", c.Server.SessionMin, c.Server.SessionMax, err)
	}
}

package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// TestConfigurationOfOtherMachinesIsTakenOverIfItsOwnLogNamesThem: a reconfig may replace all
// servers at once, and a server that has it in its log may come back when it is in force.
func TestConfigurationOfOtherMachinesIsTakenOverIfItsOwnLogNamesThem(t *testing.T) {
	parse := func(hosts ...string) *ensemble.Config {
		text := ""
		for i, host := range hosts {
			text += "server." + string(rune('1'+i)) + "=" + host + ":2888:3888:participant;2181\n"
		}
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before, after, strangers := parse("a", "b", "c"), parse("d", "e", "f"), parse("x", "y", "z")
	e := ensembleState{inForce: before}
	for _, c := range []struct {
		next, newer *ensemble.Config
		want        bool
	}{
		{nil, parse("c", "d", "e"), true}, {nil, after, false}, {after, after, true}, {after, parse("f", "g", "h"), true}, {after, strangers, false},
	} {
		e.next = c.next
		if got := e.meets(c.newer); got != c.want {
			t.Errorf("logged %v, newer %v: %t", c.next, c.newer.Lines(), got)
		}
	}
}

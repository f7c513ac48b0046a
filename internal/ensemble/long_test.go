package ensemble

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// A reconfig is refused unless every server can read its result. If only the leader could
// read it, the leader would use a different quorum than the others. The result must also
// fit in a vote together with the configuration in force.
func TestAReconfigThatCannotBeReadIsRefused(t *testing.T) {
	c, err := Parse("server.1=10.0.0.1:2888:3888:participant;2181\nserver.2=10.0.0.2:2888:3888:participant;2181\nversion=0")
	if err != nil {
		t.Fatal(err)
	}
	observers := func(n int) string {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("server.%d=10.1.%d.%d:1:2:observer;3", 1000+i, i/250, i%250))
		}
		return strings.Join(lines, ",")
	}
	for n, want := range map[int]zk.Code{3: zk.OK, 4000: zk.OK, 6500: zk.ErrBadArguments, 13000: zk.ErrBadArguments} {
		joining := observers(n)
		next, code, _ := c.Change(&zk.Reconfig{ConfigID: -1, Joining: &joining}, Rules{ParticipantsMin: 2})
		if code != want {
			t.Errorf("%d observers: %v, want %v", n, code, want)
		}
		if code != zk.OK {
			continue
		}
		text := next.WithVersion(0x7fffffffffffffff).Text()
		if again, err := Parse(text); err != nil || !again.Equal(next) {
			t.Errorf("%d observers: %v", n, err)
		}
	}
}

// Any vote or NEWLEADER may carry a configuration, also from strangers. So the cost of parsing grows only
// with the length of the text, even if one server has all the addresses.
func TestManyAddressesOfAServerAreReadAtTheCostOfTheirNumber(t *testing.T) {
	cost := func(addresses int) time.Duration {
		var all []string
		for i := range addresses {
			all = append(all, fmt.Sprintf("n%x:1:2", i))
		}
		text := "server.1=" + strings.Join(all, "|") + "\nversion=0"
		began := time.Now()
		if c, err := Parse(text); err != nil || len(c.Members[0].Quorum) != addresses {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	const few, many = 4_000, 40_000
	ofFew, ofMany := cost(few), cost(many)
	if ofMany > 4*many/few*ofFew { // ten times as long, or a hundred times
		t.Errorf("%d addresses took %v, %d took %v", few, ofFew, many, ofMany)
	}
}

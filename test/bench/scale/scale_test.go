//go:build linux

package scale

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/probe"
)

func TestACurveBendsWhereItLeavesItsLeast(t *testing.T) {
	curve := func(values ...float64) []Figure {
		var c []Figure
		for i, v := range values {
			c = append(c, Figure{What: "x", Size: 10 * (i + 1), Value: v, Flat: true})
		}
		return c
	}
	for _, c := range []struct {
		curve []Figure
		want  int
		text  string
	}{
		{curve(10, 11, 9), 0, "x: no bend from 10 to 30"},
		{curve(10, 4, 7, 5), 30, "x: bends at 30"}, // compared with the least value, not the first
		{curve(10, 10, 16), 30, "x: bends at 30"},
		{curve(10, 10, 15), 0, "x: no bend from 10 to 30"},
	} {
		if got := bend(c.curve); got != c.want || bendText(c.curve) != c.text {
			t.Errorf("%v bends at %d, %q", c.curve, got, bendText(c.curve))
		}
	}
	if text := bendText([]Figure{{What: "x", Size: 1}, {What: "x", Size: 2, Value: 9}}); text != "" {
		t.Errorf("a curve that may grow: %q", text)
	}
}

func TestATableHasAimsGridAndNotes(t *testing.T) {
	table := &Table{Title: "Sizes"}
	table.flat("memory", 10_000, 30, "bytes", 60)
	table.cell("few", "sets", 1234, "", 0)
	table.cell("few", "times", 3, "", 2)
	table.cell("many", "sets", 5, "", 0)
	table.flat("memory", 1_000, 120, "bytes", 60)
	table.add("other", 0, 12.34, "ms")
	table.note("it stopped")
	want := `### Sizes

| | sets | times |
|---|---|---|
| few | 1,234 | 3.00 (<= 2.00: missed, 1.50 times) |
| many | 5.00 |  |

| what | size | figure | aim | |
|---|---|---|---|---|
| memory | 1,000 | 120 bytes | <= 60.0 bytes | missed, 2.00 times |
| memory | 10,000 | 30.0 bytes | <= 60.0 bytes | met |
| other |  | 12.3 ms |  |  |

- it stopped
- memory: no bend from 1,000 to 10,000
`
	if got := table.Text(); got != want {
		t.Errorf("%s", got)
	}
}

func TestUnknownPartsAreRefused(t *testing.T) {
	o := Options{Parts: []string{"watches", "x"}}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("%v", err)
	}
	o.Parts = Parts()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheMedianOfAnEvenNumberIsTheMiddle(t *testing.T) {
	if got := middle.Of([]float64{9, 1, 2, 3}); got != 2.5 {
		t.Errorf("%v", got)
	}
	if got := middle.Of([]time.Duration{5, 1, 3}); got != 3 {
		t.Errorf("%v", got)
	}
}

func TestSizesStopAtWhatTheProcessMayHave(t *testing.T) {
	most := clientsMax()
	table := &Table{}
	got := table.withinClients([]int{1, most + 1, most + 2})
	if len(got) != 2 || got[1] != most || len(table.Notes) != 1 {
		t.Errorf("%v, %q", got, table.Notes)
	}
	if got := table.withinClients([]int{1, most}); len(got) != 2 || len(table.Notes) != 1 {
		t.Errorf("%v, %q", got, table.Notes)
	}
}

func TestTheLeaderOfMastersServesTheFollowersAlone(t *testing.T) {
	for s, want := range map[shape]int{{3, 6, false}: 8, {3, 6, true}: 2, {7, 0, false}: 6} {
		if s.learners() != want {
			t.Errorf("%s: %d", s, s.learners())
		}
	}
}

func TestFramesAreTakenWhereverTheyAreSplit(t *testing.T) {
	frame := func(xid, code int32) []byte {
		b := binary.BigEndian.AppendUint32(nil, 16)
		b = binary.BigEndian.AppendUint32(b, uint32(xid))
		b = append(b, make([]byte, 8)...)
		return binary.BigEndian.AppendUint32(b, uint32(code))
	}
	all := append(append(frame(1, 0), frame(-1, 0)...), frame(2, -101)...)
	for split := range all {
		c := &crowd{clients: []client{{fd: 1, state: attached}}}
		if err := c.take(0, all[:split]); err != nil {
			t.Fatal(err)
		}
		if err := c.take(0, all[split:]); err != nil {
			t.Fatal(err)
		}
		if c.replies != 1 || c.events != 1 || c.refused != 1 || c.clients[0].replies != 2 {
			t.Errorf("split at %d: %d replies, %d events, %d refused", split, c.replies, c.events, c.refused)
		}
	}
}

func TestACrowdIsToldOfAChange(t *testing.T) {
	ctx, addr := awaittest.Within(t), servertest.Start(t)
	c, err := newCrowd(time.Minute, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	writer, err := probe.Dial(addr, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Cut()
	if _, err := writer.Create("/watched", nil, probe.World, probe.Persistent); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{30, 50} {
		if err := c.grow(ctx, n, 7); err != nil {
			t.Fatal(err)
		}
		if _, _, err := changeOnce(ctx, c, writer); err != nil {
			t.Fatal(err)
		}
	}
	if c.events != 30+50 || c.attached != 50 {
		t.Errorf("%d events, %d attached", c.events, c.attached)
	}
	c.cut()
	if c.attached != 0 {
		t.Errorf("%d attached without a connection", c.attached)
	}
}

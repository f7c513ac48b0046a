//go:build linux

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestMain lets this binary act as the servers that its tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == floorServer || os.Args[1] == profileServer) {
		main()
		return
	}
	os.Exit(m.Run())
}

func reportOf(t *testing.T, args ...string) *report {
	t.Helper()
	p, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return newReport(p)
}

func TestTableShowsMediansRatiosAndGoals(t *testing.T) {
	r := reportOf(t, "-parts", "get,memory")
	for _, v := range []float64{30, 10, 20} {
		r.add("apache-3.9.5", measured{"get " + serverCPU: v, "memory " + resident: 1000})
	}
	for _, v := range []float64{1, 0.5, 600} {
		r.add("conclave", measured{"get " + serverCPU: v, "memory " + resident: 250})
	}
	text := r.text()
	for _, want := range [][]string{
		{"get server CPU", "20.0", "1.00", "0.05", "<= 0.05 met"},
		{"memory resident MiB", "1000", "250", "0.25", "<= 0.125 MISSED"},
	} {
		found := false
		for line := range strings.Lines(text) {
			hit := true
			for _, w := range want {
				hit = hit && strings.Contains(line, w)
			}
			found = found || hit
		}
		if !found {
			t.Errorf("no line with %q in\n%s", want, text)
		}
	}
}

func TestMedianOfAnEvenNumberIsTheMiddle(t *testing.T) {
	r := reportOf(t)
	r.add("conclave", measured{"x": 1})
	r.add("conclave", measured{"x": 4})
	r.add("conclave", measured{})
	if v, ok := r.median("conclave", "x"); v != 2.5 || !ok {
		t.Errorf("median %v", v)
	}
	if _, ok := r.median("conclave", "y"); ok {
		t.Error("a figure that nobody measured")
	}
}

func TestUnknownPartsAndServersAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-parts", "x"}, {"-servers", "x"}, {"-repetitions", "0"}, {"-size", "3", "-parts", "memory"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestAnEnsembleHasGoalsOfItsOwn(t *testing.T) {
	r := reportOf(t, "-size", "3", "-parts", "mix,single")
	r.add("apache-3.9.5", measured{"mix " + perSecond: 1000, "mix " + serverCPU: 100, "single " + median: 1000})
	r.add("conclave", measured{"mix " + perSecond: 2900, "mix " + serverCPU: 10, "single " + median: 510})
	text := r.text()
	for _, want := range []string{">= 3 MISSED", "<= 0.1 met", "<= 0.5 MISSED", "ensemble of 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAFailoverIsTheMedianOfItsRounds(t *testing.T) {
	f, err := parseFailover([]string{"-rounds", "3", "-servers", "conclave"})
	if err != nil {
		t.Fatal(err)
	}
	f.gaps = map[string][]time.Duration{"conclave killed": {9 * time.Millisecond, 70 * time.Millisecond, 30 * time.Millisecond}}
	text := f.text()
	for _, want := range []string{"killed", "30.0", "9.0", "70.0", "<= 60 met"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestMultiplesOfTheFloorHaveNoGoals(t *testing.T) {
	p, err := parseFloor([]string{"-size", "3", "-parts", "set"})
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(p)
	r.add("floor", measured{"set " + leaderCPU: 2})
	r.add("conclave", measured{"set " + leaderCPU: 9})
	text := r.text()
	for _, want := range []string{"all connections to the leader", "set leader CPU", "4.50"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "goal") {
		t.Errorf("a goal in\n%s", text)
	}
	if _, err := parseFloor([]string{"-parts", "memory"}); err == nil {
		t.Error("the floor's memory is to be measured")
	}
}

func TestTheFloorBearsTheLoads(t *testing.T) {
	for _, size := range []string{"1", "3"} {
		p, err := parseFloor([]string{"-size", size, "-duration", "50ms", "-warm-up", "30ms"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := measure(awaittest.Within(t), p, leastServer{logMiB: 256})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.parts {
			if m[name+" "+perSecond] == 0 || !slices.Contains(newReport(p).Figures, name+" "+serverCPU) {
				t.Errorf("%s of %s was not measured: %v", name, size, m)
			}
		}
	}
}

func TestASampleIsOfTheInnermostStepThatIsKnown(t *testing.T) {
	got := bySteps(`File: bench
Type: cpu
Duration: 4.02s, Total samples = 1.57s (39.07%)
-----------+-------------------------------------------------------
      10ms   hash/crc32.ieeeCLMUL
             github.com/conclave-project/conclave/internal/tree.statSum
             github.com/conclave-project/conclave/internal/tree.(*Tree).Apply
             github.com/conclave-project/conclave/internal/replica.(*Replica).Step
             github.com/conclave-project/conclave/internal/server.(*Server).runLoop
-----------+-------------------------------------------------------
     1.20s   runtime.memmove
             github.com/conclave-project/conclave/internal/tree.(*Tree).Apply
             github.com/conclave-project/conclave/internal/replica.(*Replica).Step
-----------+-------------------------------------------------------
      20ms   runtime.scanobject
             runtime.gcAssistAlloc
             runtime.mallocgc
             github.com/conclave-project/conclave/internal/tree.(*Tree).Apply
-----------+-------------------------------------------------------
      30ms   github.com/conclave-project/conclave/internal/server.(*Server).runLoop
-----------+-------------------------------------------------------
      40ms   main.unknown
`)
	want := map[string]time.Duration{"digest": 10 * time.Millisecond, "tree": 1200 * time.Millisecond,
		"garbage collector": 20 * time.Millisecond, "loop": 30 * time.Millisecond, otherStep: 40 * time.Millisecond}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	text := stepsText([]column{{"set", got, 1_000_000}})
	if first := strings.Fields(strings.SplitAfter(text, "\n")[1]); !slices.Equal(first, []string{"tree", "1200", "92.3"}) {
		t.Errorf("%q is first in\n%s", first, text)
	}
}

// On a fresh machine the go command first builds its pprof, for which there is no time
// limit.
func TestAProfileIsTakenOfEachLoad(t *testing.T) {
	dir := t.TempDir()
	merged := filepath.Join(dir, "all")
	if err := profileLoads(t.Context(), []string{"-duration", "300ms", "-warm-up", "50ms", "-keep", dir, "-merge", merged}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"set.pprof", "create.pprof", "get.pprof", "start.pprof", "all"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCrowdsAreRead(t *testing.T) {
	if c, err := parseCrowd("100x2/7"); err != nil || c != (crowd{100, 2, 7}) || c.all() != 200 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "1x1", "0x1/1", "1x1/1 ", "1x1/1/1", "-1x1/1"} {
		if c, err := parseCrowd(bad); err == nil {
			t.Errorf("%q is %+v", bad, c)
		}
	}
}

func TestRivalsAreChosenByStoreAndWay(t *testing.T) {
	got, err := chosenRivals("etcd,consul:consul")
	if want := []rival{{"etcd", "conclave"}, {"etcd", "etcd"}, {"consul", "consul"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := chosenRivals("etcd:curator"); err == nil {
		t.Error("etcd has no Curator")
	}
	for _, r := range rivals {
		if libraries[r.way] == "" {
			t.Errorf("the way %q has no name", r.way)
		}
	}
}

func TestSamplesOfAMetricAreSummed(t *testing.T) {
	text := "# HELP a b\na{x=\"1\",r=\"leases\"} 2\na{x=\"2\",r=\"leases\"} 3e2\na{r=\"pods\"} 7\nab{r=\"leases\"} 9\na 1\n"
	if sum := sumOf(text, "a", `r="leases"`); sum != 302 {
		t.Errorf("the sum is %d", sum)
	}
}

// TestTableOfElections: the memory of one candidate is the memory of the crowd minus that
// of a single candidate, and times to a successor are shown in leases.
func TestTableOfElections(t *testing.T) {
	e := &electionCost{
		Costs: []cost{
			{Store: "etcd", Way: "etcd", Crowd: "1x1/1", Lease: 4 * time.Second, Memory: 10 << 10},
			{Store: "etcd", Way: "etcd", Crowd: "101x1/1", Lease: 4 * time.Second, Memory: 510 << 10, Requests: 12, PerLease: 0.5},
			{Store: "consul", Way: "consul", Crowd: "1x1/1", Failed: "no connection"},
		},
		Successors: []successor{{"etcd", "etcd", 4 * time.Second, []time.Duration{6 * time.Second, 2 * time.Second, 4 * time.Second}}},
	}
	text := strings.Join(strings.Fields(e.text()), " ")
	for _, want := range []string{
		"etcd clientv3/concurrency 101x1/1 4 12.0 0.50 0.0 0.00 0.0 0.5 5.0 0.0",
		"etcd clientv3/concurrency 4 1.00 0.50 1.50",
		"failed: no connection",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, e.text())
		}
	}
}

// TestPartyIsUnderstood: the output of a process of candidates, and its end.
func TestPartyIsUnderstood(t *testing.T) {
	p, err := startParty([]string{"sh", "-c", "echo led a; echo; echo led b; read x; echo calm 3; read y; exit"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	ctx := awaittest.Within(t)
	if err := p.awaitLed(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := p.calmDown(ctx); err != nil {
		t.Fatal(err)
	}
	if bytes, err := p.memory(); err != nil || bytes <= 0 {
		t.Errorf("memory %d, %v", bytes, err)
	}
	if _, err := p.cpu(); err != nil {
		t.Error(err)
	}
	p.input.Close()
	if err := p.awaitLed(ctx, 3); err == nil {
		t.Error("three elections are led, of two")
	}
}

// TestTableBesideEtcd: medians of both, and etcd's in multiples of ours.
func TestTableBesideEtcd(t *testing.T) {
	e, err := parseEtcd([]string{"-works", "get,set"})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{30, 10, 20} {
		e.add(kindEtcd, "get", map[string]float64{serverCPU: v, median: 8 * v})
	}
	for _, v := range []float64{4, 5, 600} {
		e.add(kindConclave, "get", map[string]float64{serverCPU: v, median: v})
	}
	text := strings.Join(strings.Fields(e.text()), " ")
	if want := "get 20.0 5.0 4.00 0.0 0.0 NaN 160.0 5.0 32.00"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, e.text())
	}
	for _, bad := range [][]string{{"-works", "scan"}, {"-size", "2"}, {"-repetitions", "0"}} {
		if _, err := parseEtcd(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Both servers have the same number of slices, and each is first equally often.
func TestTurnsAreShared(t *testing.T) {
	for block := range 2 {
		first := 0
		for slice := 0; slice < 8; slice += 2 {
			if turn(slice, block) == turn(slice+1, block) {
				t.Errorf("block %d: one server has the slices %d and %d", block, slice, slice+1)
			}
			first += turn(slice, block)
		}
		if first != 2 {
			t.Errorf("block %d: the second server is the first in %d of 4", block, first)
		}
	}
}

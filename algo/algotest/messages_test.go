package algotest_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
	"github.com/conclave-project/conclave/algo/registry"
	_ "github.com/conclave-project/conclave/internal/tracetest" // has the flag -rewrite
)

const leaseMs = 1000

func maker(t testing.TB, name string) algotest.Founder {
	a, err := registry.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(members []algo.ID) algotest.Maker {
		return func(nowMs int64, id algo.ID, state algo.State, seed uint64) algo.Machine {
			return a.New(nowMs, registry.Options{ID: id, Members: members, State: state, LeaseMs: leaseMs,
				DriftPercent: 5, Seed: seed})
		}
	}
}

// started returns a world with all members up.
func started(t testing.TB, name string, seed uint64, ids []algo.ID) *algotest.World {
	w := algotest.New(seed, maker(t, name)(ids), ids)
	for _, id := range ids {
		w.Start(id)
	}
	return w
}

func campaign(w *algotest.World, ids []algo.ID) {
	for _, id := range ids {
		w.Do(id, algo.Campaign{})
	}
}

// count returns how many messages of these types were sent.
func count(w *algotest.World, types ...algo.MessageType) (n int) {
	for _, t := range types {
		n += w.Sent[t]
	}
	return n
}

var (
	raftTypes  = []algo.MessageType{algo.PreVote, algo.PreVoteReply, algo.RequestVote, algo.RequestVoteReply, algo.Heartbeat, algo.HeartbeatReply}
	bullyTypes = []algo.MessageType{algo.Election, algo.Answer, algo.Coordinator}
	ringTypes  = []algo.MessageType{algo.Token, algo.Elected} // confirmations are not counted
)

// A measure counts the messages of an election among n members.
type measure struct {
	title, formula string
	expect         func(n float64) float64
	within         float64 // allowed deviation, as a fraction of the expected number
	count          func(t testing.TB, n int) float64
	color, dash    string // of its line; a dashed line lies on another one
}

var measures = []measure{
	{"Raft, one candidate", "6(n-1)", func(n float64) float64 { return 6 * (n - 1) }, 0, raftElection, "#1b7f5c", ""},
	{"Bully, worst", "n(n-1)", func(n float64) float64 { return n * (n - 1) }, 0, bullyWorst, "#b3261e", ""},
	{"Bully, best", "n", func(n float64) float64 { return n }, 0, bullyBest, "#e58f8a", ""},
	{"Ring, worst", "n(n+1)/2 + n", func(n float64) float64 { return n*(n+1)/2 + n }, 0, ringWorst, "#2a5db0", ""},
	{"Ring, best", "2n", func(n float64) float64 { return 2 * n }, 0, ringBest, "#c7d8f2", ""},
	{"Ring, average", "n(1 + 1/2 + ... + 1/n) + n", ringExpected, 0.1, ringAverage, "#8fb0e6", ""},
	{"Lowest, each heartbeat", "n(n-1)", func(n float64) float64 { return n * (n - 1) }, 0, lowestHeartbeat, "#8a5a00",
		` stroke-dasharray="6 6"`},
	{"Raft, each heartbeat", "2(n-1)", func(n float64) float64 { return 2 * (n - 1) }, 0, raftHeartbeat, "#7fc4a8", ""},
}

func raftElection(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "raft", 1, ids)
	campaign(w, ids[:1])
	w.Run(20)
	return float64(count(w, raftTypes...))
}

func raftHeartbeat(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "raft", 1, ids)
	campaign(w, ids[:1])
	w.Run(leaseMs/5 - 50)
	before := count(w, raftTypes...)
	w.Run(leaseMs / 10)
	return float64(count(w, raftTypes...) - before)
}

// bullyWorst lets the leader die; all others hold an election.
func bullyWorst(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "bully", 1, ids)
	campaign(w, ids)
	w.Run(leaseMs)
	before := count(w, bullyTypes...)
	w.Crash(ids[n-1])
	w.Run(2 * leaseMs)
	return float64(count(w, bullyTypes...) - before)
}

// bullyBest lets only the greatest living member hold an election; no greater one answers.
func bullyBest(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "bully", 1, ids)
	w.Crash(ids[n-1])
	campaign(w, ids[n-2:n-1])
	w.Run(leaseMs)
	return float64(count(w, bullyTypes...))
}

// ringWorst has ids fall along the ring, and all members begin at once.
func ringWorst(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	slices.Reverse(ids)
	w := started(t, "ring", 1, ids)
	campaign(w, ids)
	w.Run(leaseMs)
	return float64(count(w, ringTypes...))
}

// ringBest lets the greatest member begin alone.
func ringBest(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "ring", 1, ids)
	campaign(w, ids[n-1:])
	w.Run(leaseMs)
	return float64(count(w, ringTypes...))
}

func ringExpected(n float64) float64 {
	sum := n
	for k := 1.0; k <= n; k++ {
		sum += n / k
	}
	return sum
}

// ringAverage averages over rings in random order.
func ringAverage(t testing.TB, n int) float64 {
	const rings = 60
	total := 0
	for seed := range uint64(rings) {
		ids := algotest.IDs(n)
		random := algotest.NewRandom(seed)
		for i := range ids {
			j := random.Below(i + 1)
			ids[i], ids[j] = ids[j], ids[i]
		}
		w := started(t, "ring", seed, ids)
		campaign(w, ids)
		w.Run(leaseMs)
		total += count(w, ringTypes...)
	}
	return float64(total) / rings
}

func lowestHeartbeat(t testing.TB, n int) float64 {
	ids := algotest.IDs(n)
	w := started(t, "lowest", 1, ids)
	campaign(w, ids)
	w.Run(leaseMs/5 - 50)
	before := w.Sent[algo.Alive]
	w.Run(leaseMs / 5)
	return float64(w.Sent[algo.Alive] - before)
}

var sizes = []int{3, 5, 10, 20, 50, 100}

// TestMessagesAreAsManyAsTheFormulaeSay counts and compares messages, and keeps the table
// and the plot of docs/algorithms.md up to date.
func TestMessagesAreAsManyAsTheFormulaeSay(t *testing.T) {
	counts := make([][]float64, len(measures))
	var table strings.Builder
	table.WriteString("| messages | formula |")
	for _, n := range sizes {
		fmt.Fprintf(&table, " n=%d |", n)
	}
	table.WriteString("\n|---|---|" + strings.Repeat("--:|", len(sizes)) + "\n")
	for i, m := range measures {
		fmt.Fprintf(&table, "| %s | %s |", m.title, m.formula)
		for _, n := range sizes {
			got, want := m.count(t, n), m.expect(float64(n))
			if math.Abs(got-want) > m.within*want {
				t.Errorf("%s, n=%d: %.1f messages, the formula says %.1f", m.title, n, got, want)
			}
			counts[i] = append(counts[i], got)
			fmt.Fprintf(&table, " %.0f |", got)
		}
		table.WriteString("\n")
	}
	golden(t, "../../docs/pictures/algorithms-messages.svg", func([]byte) []byte { return plot(counts) })
	golden(t, "../../docs/algorithms.md", func(doc []byte) []byte { return between(t, doc, "messages", table.String()) })
}

// TestHandoverTimes measures the time from a leader's death to the next leadership, and
// keeps the table of docs/algorithms.md up to date.
func TestHandoverTimes(t *testing.T) {
	var table strings.Builder
	table.WriteString("| algorithm | median ms | longest ms |\n|---|--:|--:|\n")
	for _, a := range registry.All() {
		var times []int64
		for seed := range uint64(60) {
			times = append(times, handover(t, a.Name, seed))
		}
		slices.Sort(times)
		fmt.Fprintf(&table, "| %s | %d | %d |\n", a.Name, times[len(times)/2], times[len(times)-1])
		if longest := times[len(times)-1]; longest > 2*leaseMs {
			t.Errorf("%s: nobody leads for %d ms with a lease of %d", a.Name, longest, leaseMs)
		}
	}
	golden(t, "../../docs/algorithms.md", func(doc []byte) []byte { return between(t, doc, "times", table.String()) })
}

func handover(t testing.TB, name string, seed uint64) int64 {
	ids := algotest.IDs(5)
	w := started(t, name, seed, ids)
	campaign(w, ids)
	w.Run(3*leaseMs + int64(seed*7))
	leaders := w.Leaders()
	if len(leaders) != 1 {
		t.Fatalf("%s, seed %d: %v lead", name, seed, leaders)
	}
	w.Crash(leaders[0])
	start, before := w.NowMs(), w.Elections
	for w.Elections == before {
		w.Run(1)
		if w.NowMs() > start+60*leaseMs {
			t.Fatalf("%s, seed %d: nobody is elected\n%v", name, seed, w)
		}
	}
	return w.NowMs() - start
}

// golden compares a file with its expected content, and writes it with -rewrite.
func golden(t *testing.T, name string, make func(old []byte) []byte) {
	t.Helper()
	old, err := os.ReadFile(name)
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	if err != nil && !rewrite {
		t.Fatal(err)
	}
	text := make(old)
	switch {
	case bytes.Equal(text, old):
	case rewrite:
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not as it should be; -rewrite writes it again", name)
	}
}

// between replaces the text between two markers of a document.
func between(t testing.TB, doc []byte, marker, text string) []byte {
	begin, end := fmt.Sprintf("<!-- %s -->\n", marker), fmt.Sprintf("<!-- end of %s -->", marker)
	head, rest, ok := strings.Cut(string(doc), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the document has no place for %q", marker)
	}
	return []byte(head + begin + text + end + tail)
}

//go:build linux

package overlap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Shared describes an election of our candidates, alone or together with those of another
// program.
type Shared struct {
	// Backend is one of ours; the run observes the leader through it.
	Backend election.Backend
	// URLs all lead to the same store. Our candidates use them in turn.
	URLs []string
	// Election and Lease are the election and the lease of our candidates.
	Election string
	Lease    time.Duration
	// Other returns the command of one candidate of the other program; nil if only our
	// candidates take part. Views name that candidate by the id. While it leads it must run
	// the test binary with Environment(id, file), unless OtherLeads is set.
	Other func(id, file string) *exec.Cmd
	// OtherLeads, if not nil, reports whether a line of the other program's output says
	// that it leads. It is for programs that cannot run a command while they lead.
	OtherLeads func(id, line string) bool
	// Handovers is how many hand-overs the run needs.
	Handovers int
	// Patience is the longest time until somebody leads, whatever happened before.
	Patience time.Duration
	// OtherKills is how many times a leader of the other program is killed; each time may
	// cost its lease.
	OtherKills int
	// Leads, if not nil, is called after each election, with its number.
	Leads func(number int)
}

const (
	// Candidates is the number of candidates of each program.
	Candidates = 3
	// betweenMin is how many hand-overs from one program to the other are needed.
	betweenMin = 3
	// inRowMax is how many times in a row our candidates lead before all of them end and
	// let the other program lead: on a busy machine it might always be too late.
	inRowMax = 10
)

// run is one call of Run.
type run struct {
	Shared
	t       *testing.T
	file    string
	random  *rand.Rand
	members map[string]*member
	kills   int
	frozen  []*child
	absent  []*member // our candidates that have ended until the other program has led
	inRow   int       // consecutive leaderships of ours
	seen    []Span    // leaderships of a program that writes none itself
}

// member is one candidate with all its processes, one after the other.
type member struct {
	id    string
	ours  bool
	start func() *exec.Cmd
	child *child
}

// Run lets candidates of both programs lead, resign, be frozen (ours) and be killed. It
// fails the test if two ever led at the same time, or if a token did not grow.
func Run(t *testing.T, s Shared) {
	r := &run{Shared: s, t: t, file: filepath.Join(t.TempDir(), "spans"), members: map[string]*member{},
		random: rand.New(rand.NewPCG(1, 2))}
	for i := range Candidates {
		r.add(fmt.Sprint("ours-", i), s.URLs[i%len(s.URLs)])
		if s.Other != nil {
			r.add(fmt.Sprint("other-", i), "")
		}
	}
	tokens := r.lead()
	for _, m := range r.members {
		m.child.end(syscall.SIGKILL)
	}
	v := r.judge()
	for _, overlap := range v.overlaps {
		t.Error(overlap)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
	if !r.enough(v) {
		t.Errorf("only %d hand-overs, %d of them between the programs", v.handovers, v.between)
	}
	t.Logf("%d leaderships, %d hand-overs, %d of them between the programs, %d overlaps",
		v.leaderships, v.handovers, v.between, len(v.overlaps))
}

// verdict is what the spans show so far.
type verdict struct {
	overlaps []string
	// handovers counts all hand-overs, between only those from one program to the other.
	handovers, between int
	leaderships        int
}

func (r *run) judge() verdict {
	r.t.Helper()
	spans, err := Read(r.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	spans = append(spans, r.seen...)
	v := verdict{leaderships: len(spans)}
	v.overlaps, v.handovers = Judge(spans)
	for i := 1; i < len(spans); i++ {
		if r.members[spans[i].ID].ours != r.members[spans[i-1].ID].ours {
			v.between++
		}
	}
	return v
}

func (r *run) enough(v verdict) bool {
	return v.handovers >= r.Handovers && (r.Other == nil || v.between >= betweenMin)
}

// add starts a candidate: one of ours on this URL, or one of the other program if the URL
// is empty.
func (r *run) add(id, url string) {
	m := &member{id: id, ours: url != ""}
	m.start = func() *exec.Cmd {
		if !m.ours {
			return r.Other(id, r.file)
		}
		command := exec.Command(os.Args[0], "-test.run=^$")
		command.Env = Campaign(url, r.Election, id, r.file, r.Lease)
		return command
	}
	r.members[id] = m
	r.restart(m)
}

func (r *run) restart(m *member) {
	var leads func(line string) bool
	if !m.ours && r.OtherLeads != nil {
		leads = func(line string) bool { return r.OtherLeads(m.id, line) }
	}
	c, err := spawn(m.start(), leads)
	if err != nil {
		r.t.Fatal(err)
	}
	m.child = c
	r.t.Cleanup(func() { c.end(syscall.SIGKILL) })
}

// lead observes who leads and disturbs each leader, until there were enough hand-overs. It
// returns the tokens in order.
func (r *run) lead() []election.Token {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leaders := make(chan election.View)
	go func() {
		defer close(leaders)
		for view, err := range r.Backend.Observe(ctx, r.Election) {
			if err == nil && view.Leader != "" {
				select {
				case leaders <- view:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	var tokens []election.Token
	// A leader in the store's view may lose the election before it has begun to lead, so
	// bound the number of leaderships.
	for len(tokens) < 3*r.Handovers && !r.enough(r.judge()) {
		view := r.await(leaders, tokens)
		m := r.members[view.Leader]
		if m == nil {
			r.t.Fatalf("%q leads, whom nobody knows", view.Leader)
		}
		tokens = append(tokens, view.Token)
		r.thaw()
		if r.Leads != nil {
			r.Leads(len(tokens))
		}
		r.disturb(m, view.Token)
	}
	return tokens
}

// await returns the View of the next leadership.
func (r *run) await(leaders <-chan election.View, tokens []election.Token) election.View {
	r.t.Helper()
	limit := time.After(r.Patience)
	for {
		select {
		case view, open := <-leaders:
			if !open {
				r.t.Fatal("the election cannot be observed any more")
			}
			if len(tokens) == 0 || view.Token != tokens[len(tokens)-1] {
				return view
			}
		case <-limit:
			r.t.Fatalf("nobody leads within %v, after %d leaderships; %d were written down", r.Patience, len(tokens),
				r.judge().leaderships)
		}
	}
}

// disturb lets a leader lead for a moment and then ends its leadership.
func (r *run) disturb(m *member, token election.Token) {
	from, leads := m.child.leads(token)
	if !leads {
		return // it lost the election before it knew that it had won
	}
	time.Sleep(time.Duration(50+r.random.IntN(100)) * time.Millisecond)
	until := clock.Now()
	choice := r.random.IntN(4)
	if r.inRow++; !m.ours {
		r.inRow = 0
	}
	switch {
	case r.Other != nil && r.inRow >= inRowMax:
		r.makeWay()
	case m.ours && choice == 0:
		m.child.end(syscall.SIGKILL)
		r.restart(m)
	case m.ours && choice == 1:
		m.child.signal(syscall.SIGSTOP)
		r.frozen = append(r.frozen, m.child)
	case m.ours:
		m.child.signal(syscall.SIGUSR1)
	case r.kills < r.OtherKills:
		r.kills++
		m.child.end(syscall.SIGKILL)
		r.restart(m)
	default:
		m.child.end(syscall.SIGTERM)
		r.restart(m)
	}
	if !m.ours && r.OtherLeads != nil {
		r.seen = append(r.seen, Span{m.id, from, until})
	}
}

// makeWay ends all our candidates in order, so that they leave nothing in the store.
func (r *run) makeWay() {
	for _, m := range r.members {
		if m.ours {
			m.child.end(syscall.SIGTERM)
			r.absent = append(r.absent, m)
		}
	}
}

// thaw continues the candidates that were frozen while they led: another one leads by now,
// and they must notice at once. It also starts those again that makeWay has ended.
func (r *run) thaw() {
	for _, m := range r.absent {
		r.restart(m)
	}
	r.absent = nil
	for _, c := range r.frozen {
		c.signal(syscall.SIGCONT)
	}
	r.frozen = nil
}

// Link is the connection of one candidate to the store.
type Link interface {
	Cut()
	CutRequests()
	CutReplies()
	Delay(requests, replies time.Duration)
	Heal()
}

// BadLinks returns a function for Shared.Leads that heals all links and then makes one of
// them bad: cut, cut in one direction, or slow.
func BadLinks(links []Link, lease time.Duration) func(number int) {
	return func(number int) {
		for _, l := range links {
			l.Heal()
		}
		l := links[number%len(links)]
		switch number / len(links) % 4 {
		case 0:
			l.CutReplies()
		case 1:
			l.Delay(lease/8, lease/3)
		case 2:
			l.CutRequests()
		case 3:
			l.Cut()
		}
	}
}

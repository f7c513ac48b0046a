package zabtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Script runs a story: blocks of commands, each followed by "----" and what
// came of it. It returns the text with the outcomes as they are now. Lines that
// begin with # stay as they are. The commands:
//
//	peers N [observers=N] [masters=1] [history=N] [counter=N]   a new ensemble, all empty and looking
//	log ID 1.1-1.3 2.1 [accepted=N] [current=N]     what a server has on disk
//	snapshot ID 1.3                                 it has everything up to there as a snapshot, no log
//	elect ID [IDs]                                  everybody, or these, learn that ID leads
//	propose ID [N]                                  clients of a leader write
//	forward ID, sync ID, revalidate ID              a client of a server writes, syncs, comes back
//	touched ID                                      a client of a learner is gone
//	alone ID, together ID                           the oracle permits a server to decide alone, or not
//	cut A B, oneway A B, heal                       links stall, and go on
//	crash ID, restart ID, hold ID, release ID       processes; disks that stall
//	tick MS                                         time passes, and everybody is told
//	for MS                                          see only this much of what follows
//	show                                            one line for each server
func Script(text string) (string, error) {
	p := player{}
	var out []string
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, found := strings.Cut(block, "----")
		if !found && isComment(commands) {
			out = append(out, strings.TrimRight(commands, "\n"))
			continue
		}
		p.rest = -1
		for line := range strings.SplitSeq(strings.TrimSpace(commands), "\n") {
			if !strings.HasPrefix(line, "#") {
				if err := p.command(strings.Fields(line)); err != nil {
					return "", fmt.Errorf("%q: %w", line, err)
				}
			}
		}
		out = append(out, strings.TrimSpace(commands)+"\n----\n"+p.outcome())
	}
	return strings.Join(out, "\n\n") + "\n", nil
}

func isComment(block string) bool {
	for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// player carries out the commands of a story.
type player struct {
	w    *World
	rest int64 // ms to run at the end of the block, -1 for everything that happens
	show bool
}

// outcome runs the ensemble and returns what the block has written.
func (p *player) outcome() string {
	w := p.w
	if p.rest < 0 {
		for len(w.todo) > 0 && w.err == nil {
			w.Run(w.todo[0].atMs)
		}
	} else {
		w.Run(w.nowMs + p.rest)
	}
	if p.show {
		p.show = false
		for _, s := range w.servers {
			w.note("%s", s.line())
		}
	}
	text := w.trace.String()
	w.trace.Reset()
	if text == "" {
		return "ok"
	}
	return strings.TrimRight(text, "\n")
}

func (p *player) command(fields []string) error {
	if fields[0] == "peers" {
		return p.peers(fields[1:])
	}
	if p.w == nil {
		return fmt.Errorf("no peers yet")
	}
	numbers := numbersOf(fields[1:])
	switch fields[0] {
	case "tick":
		p.w.nowMs += int64(numbers[0])
		for _, s := range p.w.servers {
			s.push(zab.Event{Kind: zab.EventTick})
		}
	case "for":
		p.rest = int64(numbers[0])
	case "show":
		p.show = true
	case "heal":
		p.w.Heal()
	case "cut", "oneway":
		p.w.Cut(quorum.ID(numbers[0]), quorum.ID(numbers[1]))
		if fields[0] == "cut" {
			p.w.Cut(quorum.ID(numbers[1]), quorum.ID(numbers[0]))
		}
	default:
		return p.toServer(fields, numbers)
	}
	return nil
}

// toServer carries out a command for one server.
func (p *player) toServer(fields []string, numbers []int) error {
	if len(numbers) == 0 || numbers[0] < 1 || numbers[0] > len(p.w.servers) {
		return fmt.Errorf("which server?")
	}
	s := p.w.server(quorum.ID(numbers[0]))
	switch fields[0] {
	case "log", "snapshot":
		return p.fill(s, fields)
	case "elect":
		p.elect(s, numbers[1:])
	case "propose":
		s.wanted += max(1, append(numbers, 1)[1])
		s.wake()
	case "forward":
		s.push(zab.Event{Kind: zab.EventForward, Request: &zab.Request{}})
	case "sync":
		s.askSync()
	case "revalidate":
		s.revalidates()
	case "touched":
		s.push(zab.Event{Kind: zab.EventTouched})
	case "alone", "together":
		s.push(zab.Event{Kind: zab.EventOracle, OK: fields[0] == "alone"})
	case "crash":
		p.w.Crash(s.id)
	case "restart":
		p.w.Restart(s.id)
	case "hold":
		s.disk.held = true
	case "release":
		s.disk.held = false
		s.turnDisk()
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}

func (p *player) peers(fields []string) error {
	o := Options{Calm: true, KeepTrace: true, HistoryMax: 100}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		return err
	}
	o.Participants = n
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch key {
		case "observers":
			o.Observers = n
		case "masters":
			o.Masters = n != 0
		case "history":
			o.HistoryMax = n
		case "counter":
			o.CounterMax = uint32(n)
		}
	}
	p.w = New(o)
	return nil
}

// elect announces the result of an election.
func (p *player) elect(s *server, ids []int) {
	for _, t := range p.w.servers {
		wanted := len(ids) == 0 || t == s
		for _, id := range ids {
			wanted = wanted || quorum.ID(id) == t.id
		}
		if wanted && t.up && t.peer.Quiet() {
			t.elected(s.id)
		}
	}
}

// fill puts records on a server's disk and starts it again.
func (p *player) fill(s *server, fields []string) error {
	d := disk{}
	for _, field := range fields[2:] {
		if key, value, found := strings.Cut(field, "="); found {
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			if key == "accepted" {
				d.accepted = uint32(n)
			} else {
				d.current = uint32(n)
			}
			continue
		}
		first, last, _ := strings.Cut(field, "-")
		if last == "" {
			last = first
		}
		for z := parseZxid(first); z <= parseZxid(last); z++ {
			d.log = append(d.log, zab.Record{Zxid: z, Payload: []byte(zab.FormatZxid(z))})
		}
	}
	d.written = len(d.log)
	d.current = max(d.current, d.last().Epoch())
	d.accepted = max(d.accepted, d.current)
	if fields[0] == "snapshot" {
		d.base, d.snap, d.log, d.written = d.last(), d.log, nil, 0
	}
	s.disk = d
	s.start()
	return nil
}

// line describes a server for people.
func (s *server) line() string {
	if !s.up {
		return fmt.Sprintf("%d: down, log %s", s.id, spans(s.disk.state()))
	}
	state := [...]string{"looking", "following", "leading", "observing"}[s.peer.State()]
	accepted, current := s.peer.Epochs()
	serving := ""
	if s.serving {
		serving = ", serves"
	}
	return fmt.Sprintf("%d: %s%s, accepted %d, current %d, disk %s, tree %s", s.id, state, serving, accepted, current,
		spans(s.disk.state()), spans(s.tree))
}

// spans writes records as 1.1-1.4 2.1.
func spans(records []zab.Record) string {
	if len(records) == 0 {
		return "empty"
	}
	var b strings.Builder
	for i := 0; i < len(records); {
		j := i
		for j+1 < len(records) && records[j+1].Zxid == records[j].Zxid+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(zab.FormatZxid(records[i].Zxid))
		if j > i {
			b.WriteString("-" + zab.FormatZxid(records[j].Zxid))
		}
		i = j + 1
	}
	return b.String()
}

func parseZxid(text string) zk.Zxid {
	epoch, counter, _ := strings.Cut(text, ".")
	e, _ := strconv.ParseUint(epoch, 10, 32)
	c, _ := strconv.ParseUint(counter, 10, 32)
	return zk.MakeZxid(uint32(e), uint32(c))
}

// numbersOf returns the leading fields that are numbers.
func numbersOf(fields []string) []int {
	var all []int
	for _, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil {
			break
		}
		all = append(all, n)
	}
	return all
}

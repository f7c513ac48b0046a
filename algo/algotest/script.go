package algotest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/algo"
)

// Founder returns the maker of a script's members, all of which are founders.
type Founder func(members []algo.ID) Maker

// Play runs a story for package tracetest: blocks of commands, each followed by "----" and
// what happened. The commands:
//
//	members a b c ...       these members exist and are up; the first command
//	spare d ...             additional members that are up and no founders
//	campaign | withdraw | crash | start | freeze | thaw ID...
//	forget ID...            a member that is down loses its disk
//	transfer ID TO
//	reconfigure ID a,b,d    ID asks for these members
//	cut a,b c               no messages between the groups; "cut a > b" in one direction
//	heal
//	lose PERMILLE           of all messages
//	run MS                  lets time pass
//	show                    the members that lead
//
// Messages take a millisecond. Heartbeats and renewed leases are left out.
func Play(found Founder, story string) (string, error) {
	p := &player{found: found}
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(story, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "----")
		commands = strings.TrimSpace(commands)
		p.lines = nil
		for line := range strings.SplitSeq(commands, "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if err := p.command(strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%q: %w", line, err)
			}
		}
		if len(p.lines) == 0 {
			p.lines = []string{"ok"}
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", commands, strings.Join(p.lines, "\n"))
	}
	for _, wrong := range p.world.Wrong {
		fmt.Fprintf(&out, "WRONG %s\n", wrong)
	}
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}

// player runs a story.
type player struct {
	found Founder
	world *World
	lines []string
}

func (p *player) command(fields []string) error {
	verb, rest := fields[0], fields[1:]
	if verb == "members" {
		p.members(rest)
		return nil
	}
	if p.world == nil {
		return fmt.Errorf("the first command is members")
	}
	each := map[string]func(algo.ID){
		"campaign": func(id algo.ID) { p.world.Do(id, algo.Campaign{}) },
		"withdraw": func(id algo.ID) { p.world.Do(id, algo.Withdraw{}) },
		"crash":    p.world.Crash,
		"start":    p.world.Start,
		"freeze":   p.world.Freeze,
		"thaw":     p.world.Thaw,
		"forget":   func(id algo.ID) { p.world.Forget(id, algo.State{}) },
		"spare":    p.spare,
	}[verb]
	if each != nil {
		for _, id := range rest {
			each(algo.ID(id))
		}
		return nil
	}
	switch {
	case verb == "transfer" && len(rest) == 2:
		p.world.Do(algo.ID(rest[0]), algo.Transfer{To: algo.ID(rest[1])})
	case verb == "reconfigure" && len(rest) == 2:
		p.world.Do(algo.ID(rest[0]), algo.Reconfigure{Members: group(rest[1])})
	case verb == "cut":
		p.cut(rest)
	case verb == "heal":
		p.world.Heal()
	case verb == "lose" && len(rest) == 1:
		n, err := strconv.Atoi(rest[0])
		p.world.Network.LossPerMille = n
		return err
	case verb == "run" && len(rest) == 1:
		ms, err := strconv.ParseInt(rest[0], 10, 64)
		p.world.Run(ms)
		return err
	case verb == "show":
		p.lines = append(p.lines, fmt.Sprintf("%d leaders: %v", p.world.NowMs(), p.world.Leaders()))
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func (p *player) members(fields []string) {
	ids := group(strings.Join(fields, ","))
	p.world = New(1, p.found(ids), ids)
	for _, id := range ids {
		p.world.Start(id)
	}
	p.world.Trace = p.trace
}

// spare adds a member that is up and no founder.
func (p *player) spare(id algo.ID) {
	p.world.members = append(p.world.members, &member{id: id})
	p.world.Start(id)
}

func (p *player) cut(fields []string) {
	if len(fields) == 3 && fields[1] == ">" {
		p.world.Cut(algo.ID(fields[0]), algo.ID(fields[2]))
		return
	}
	for _, a := range group(fields[0]) {
		for _, b := range group(fields[len(fields)-1]) {
			p.world.Cut(a, b)
			p.world.Cut(b, a)
		}
	}
}

func group(text string) []algo.ID {
	var ids []algo.ID
	for id := range strings.SplitSeq(text, ",") {
		ids = append(ids, algo.ID(id))
	}
	return ids
}

// trace writes a record as one line.
func (p *player) trace(r Record) {
	if quiet(r) {
		return
	}
	line := fmt.Sprintf("%5d %s: %s", r.AtMs, r.Member, r.Text)
	if r.To != "" {
		arrow := "->"
		if r.ArrivesMs == 0 {
			arrow = "-x"
		}
		line = fmt.Sprintf("%5d %s %s %s %s", r.AtMs, r.Member, arrow, r.To, r.Text)
	}
	p.lines = append(p.lines, line)
}

// quiet reports whether a record is left out because it repeats without end. Records with
// members are kept.
func quiet(r Record) bool {
	if r.To == "" {
		return strings.HasPrefix(r.Text, "extend")
	}
	return IsHeartbeat(r.Type) && !strings.Contains(r.Text, "config=") || r.Type == algo.Passed
}

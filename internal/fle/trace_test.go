package fle

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/tracetest"
	"github.com/conclave-project/conclave/zk"
)

// TestTraces runs every file of testdata. A file starts with a sentence, and often a drawing,
// in lines with #. Then come blocks: commands, one per line, and after "----" what the servers
// did, in order. The commands are the cases of script.command.
func TestTraces(t *testing.T) {
	tracetest.Run(t, runTrace)
}

// script is one trace that runs.
type script struct {
	t        *testing.T
	net      *network
	cfg      Config
	ensemble Ensemble
}

func runTrace(t *testing.T, text string) string {
	t.Helper()
	s := &script{t: t, net: newNetwork(), cfg: Config{ResendMinMs: 200, ResendMaxMs: 60_000}}
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		fmt.Fprintf(&out, "%s\n----\n", strings.TrimSpace(commands))
		for line := range strings.SplitSeq(commands, "\n") {
			if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
				s.command(fields)
			}
		}
		for _, line := range s.net.log {
			out.WriteString(line + "\n")
		}
		if len(s.net.log) == 0 {
			out.WriteString("nothing\n")
		}
		s.net.log = nil
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func (s *script) command(fields []string) {
	s.t.Helper()
	arg := func(i int) quorum.ID { return quorum.ID(s.number(fields[i])) }
	switch fields[0] {
	case "config": // config finalize=MS: of servers made from here on
		s.cfg.FinalizeMs = s.number(strings.TrimPrefix(fields[1], "finalize="))
	case "participants": // participants ID[*WEIGHT[/GROUP]]...: the ensemble of servers made from here on
		s.ensemble.Committed = s.set(fields[1:])
		s.ensemble.Seen = nil
	case "next": // next ID...: a configuration that is proposed
		s.ensemble.Seen = s.set(fields[1:])
	case "version": // version N: of the configuration
		s.ensemble.Version = s.number(fields[1])
	case "fixed": // of the ensemble of servers made from here on
		s.ensemble.Fixed = true
	case "oracle": // of the ensemble of servers made from here on
		s.ensemble.Oracle = true
	case "alone": // alone ID...: the oracle lets these servers lead without another, and no others
		for _, id := range s.net.ids {
			e := s.ensemble
			e.Alone = slices.Contains(fields[1:], fmt.Sprint(id))
			if e.Alone != s.net.machines[id].ensemble.Alone {
				s.net.step(id, Reconfigured{e})
			}
		}
	case "servers", "observers": // servers ID...: new machines, also after a crash
		for i := range fields[1:] {
			cfg := s.cfg
			cfg.Observer = fields[0] == "observers"
			delete(s.net.down, arg(i+1))
			s.net.add(arg(i+1), cfg, s.ensemble)
		}
	case "look": // look ID EPOCH.COUNTER EPOCH, or look ID -1 EPOCH
		s.net.step(arg(1), Look{s.zxid(fields[2]), s.number(fields[3])})
	case "deliver": // deliver FROM TO: one message
		if !s.net.deliver(link{arg(1), arg(2)}) {
			s.net.say("nothing from %d to %d", arg(1), arg(2))
		}
	case "lose": // lose FROM TO: all that is under way
		delete(s.net.ways, link{arg(1), arg(2)})
	case "cut", "heal": // cut FROM TO: one direction
		s.net.cut[link{arg(1), arg(2)}] = fields[0] == "cut"
	case "part", "join": // part A B: both directions
		s.net.cut[link{arg(1), arg(2)}] = fields[0] == "part"
		s.net.cut[link{arg(2), arg(1)}] = fields[0] == "part"
	case "crash":
		s.net.crash(arg(1))
	case "quiesce": // deliver until nothing moves
		s.net.say("(%d trips)", s.net.quiesce())
	case "wait": // wait MS
		s.net.advance(s.number(fields[1]))
	case "left": // left ID: it does not lead any more, and its disk is not done
		s.net.step(arg(1), Left{})
	case "synced": // synced EPOCH ID...
		for i := range fields[2:] {
			s.net.step(arg(i+2), Synced{s.number(fields[1])})
		}
	case "reconfigured": // reconfigured ID...: to the present participants, next and version
		for i := range fields[1:] {
			s.net.step(arg(i+1), Reconfigured{s.ensemble})
		}
	case "appointed": // appointed LEADER ZXID ID...
		for i := range fields[3:] {
			s.net.step(arg(i+3), Appointed{arg(1), s.zxid(fields[2])})
		}
	case "receive": // receive TO FROM STATE LEADER ZXID EPOCH ROUND [FORMAT]: from the air
		s.net.step(arg(1), Received{arg(2), s.received(fields[3:])})
	default:
		s.t.Fatalf("unknown command %q", fields)
	}
}

func (s *script) received(fields []string) Notification {
	n := Notification{Version: 2}
	for state := range State(states) {
		if state.String() == fields[0] {
			n.State = state
		}
	}
	n.Vote = Vote{quorum.ID(s.number(fields[1])), s.zxid(fields[2]), s.number(fields[3])}
	n.Round = s.number(fields[4])
	if len(fields) > 5 {
		n.Version = int32(s.number(fields[5]))
	}
	return n
}

func (s *script) set(fields []string) quorum.Set {
	var participants []quorum.Participant
	for _, field := range fields {
		id, rest, _ := strings.Cut(field, "*")
		v := quorum.Participant{ID: quorum.ID(s.number(id)), Weight: 1}
		if weight, group, both := strings.Cut(rest, "/"); rest != "" {
			v.Weight = s.number(weight)
			if both {
				v.Group = s.number(group)
			}
		}
		participants = append(participants, v)
	}
	set, err := quorum.NewHierarchical(participants...)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *script) zxid(text string) zk.Zxid {
	epoch, counter, both := strings.Cut(text, ".")
	if !both {
		return zk.Zxid(s.number(text))
	}
	return zk.MakeZxid(uint32(s.number(epoch)), uint32(s.number(counter)))
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	if text == "min" {
		return math.MinInt64
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("bad number %q", text)
	}
	return n
}

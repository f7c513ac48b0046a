// Package admin answers operators: the four-letter words of ZooKeeper as text, in the form that
// its tools and client libraries parse, and the commands of its admin server as fields for
// JSON.
//
// It only reads a server's reports, and resets figures. Which commands are enabled is decided
// by the server.
package admin

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
)

// Commands answers the four-letter words. It implements server.Commands.
type Commands struct {
	Version string // of the program
	Built   string // when, as 2006-01-02 15:04 UTC
}

// A command is one of the four-letter words.
type command struct {
	answer func(Commands, *server.Server) string
	idle   string // the answer while no clients are served; "" means that it always answers
}

// NotServing is the answer of a server that is looking for a leader.
const NotServing = "This ZooKeeper instance is not currently serving requests"

// commands has all commands that this server knows, by name.
var commands = map[string]command{
	"ruok": {answer: func(Commands, *server.Server) string { return "imok" }},
	"isro": {isro, "null"},
	"srvr": {Commands.srvr, NotServing + "\n"},
	"stat": {Commands.stat, NotServing + "\n"},
	"mntr": {Commands.mntr, NotServing + "\n"},
	"conf": {conf, NotServing + "\n"},
	"cons": {cons, NotServing + "\n"},
	"crst": {func(_ Commands, s *server.Server) string { s.ResetConnStats(); return "Connection stats reset.\n" }, NotServing + "\n"},
	"srst": {func(_ Commands, s *server.Server) string { s.ResetStats(); return "Server stats reset.\n" }, NotServing + "\n"},
	"dump": {dump, NotServing + "\n"},
	"envi": {answer: Commands.envi},
	"wchs": {wchs, NotServing + "\n"},
	"wchc": {wchc, NotServing + "\n"},
	"wchp": {wchp, NotServing + "\n"},
	"dirs": {dirs, NotServing + "\n"},
	"hash": {hash, NotServing},
	"vote": {answer: vote},
	"gtmk": {answer: traceMask},
	"stmk": {answer: traceMask}, // the server has stored the number already
}

// Known implements server.Commands.
func (Commands) Known(name string) bool {
	_, ok := commands[name]
	return ok
}

// Answer implements server.Commands.
func (c Commands) Answer(s *server.Server, name string) string {
	command := commands[name]
	if command.idle != "" && s.Role().Mode == server.ModeLooking {
		return command.idle
	}
	return command.answer(c, s)
}

// protocolVersion is the version of ZooKeeper whose protocol is implemented. Clients take
// digits and dots from the front of the version, and decide by them what they may ask.
const protocolVersion = "3.9.5"

func (c Commands) version() string {
	return fmt.Sprintf("%s-conclave-%s, built on %s", protocolVersion, c.Version, c.Built)
}

func (c Commands) head(s *server.Server) string {
	head := "Zookeeper version: " + c.version() + "\n"
	if s.Role().Mode == server.ModeReadOnly {
		head += "READ-ONLY mode; serving only read-only clients\n"
	}
	return head
}

// traceMask exists for tools that set it; nothing is traced here.
func traceMask(_ Commands, s *server.Server) string { return strconv.FormatInt(s.TraceMask(), 10) }

func isro(_ Commands, s *server.Server) string {
	if s.Role().Mode == server.ModeReadOnly {
		return "ro"
	}
	return "rw"
}

func (c Commands) srvr(s *server.Server) string { return c.head(s) + totals(s) }

func (c Commands) stat(s *server.Server) string {
	var b strings.Builder
	b.WriteString(c.head(s) + "Clients:\n")
	for _, c := range s.Conns() {
		b.WriteString(line(&c, false))
	}
	b.WriteString("\n" + totals(s))
	return b.String()
}

// totals is the part that srvr and stat have in common. The root counts twice among the znodes,
// because ZooKeeper stores it under two names.
func totals(s *server.Server) string {
	st := s.Status()
	var b strings.Builder
	fmt.Fprintf(&b, "Latency min/avg/max: %d/%s/%d\n", st.Latency.MinMs, decimal(st.Latency.AvgMs), st.Latency.MaxMs)
	fmt.Fprintf(&b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n", st.Received, st.Sent, st.Connections, st.Outstanding)
	fmt.Fprintf(&b, "Zxid: %s\nMode: %s\nNode count: %d\n", st.Last, st.Mode, st.Znodes+1)
	if st.Mode == server.ModeLeader {
		p := st.ProposalBytes
		fmt.Fprintf(&b, "Proposal sizes last/min/max: %d/%d/%d\n", p.Last, p.Min, p.Max)
	}
	return b.String()
}

func dirs(_ Commands, s *server.Server) string {
	return fmt.Sprintf("datadir_size: %d\nlogdir_size: %d\n", s.DirBytes(s.SnapDir()), s.DirBytes(s.LogDir()))
}

// hash returns the past digests of the tree that are kept, as ZooKeeper does, and that at the
// last transaction.
func hash(_ Commands, s *server.Server) string {
	var b strings.Builder
	for _, d := range s.Digests() {
		fmt.Fprintf(&b, "%x: %d\n", uint64(d.Zxid), d.Value)
	}
	return b.String()
}

func conf(_ Commands, s *server.Server) string {
	c := s.Config()
	var b strings.Builder
	fmt.Fprintf(&b, "clientPort=%s\nsecureClientPort=%s\n", portOf(s.Addr()), portOf(s.SecureAddr()))
	fmt.Fprintf(&b, "dataDir=%s\ndataDirSize=%d\n", s.SnapDir(), s.DirBytes(s.SnapDir()))
	fmt.Fprintf(&b, "dataLogDir=%s\ndataLogSize=%d\n", s.LogDir(), s.DirBytes(s.LogDir()))
	fmt.Fprintf(&b, "tickTime=%d\nmaxClientCnxns=%d\n", c.TickTime.Milliseconds(), c.ConnsPerIPMax)
	fmt.Fprintf(&b, "minSessionTimeout=%d\nmaxSessionTimeout=%d\n", c.SessionMin.Milliseconds(), c.SessionMax.Milliseconds())
	b.WriteString("clientPortListenBacklog=-1\n")
	b.WriteString(membership(s))
	return b.String()
}

// portOf returns the port of an address; -1 for none.
func portOf(a net.Addr) string {
	if a == nil {
		return "-1"
	}
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// membership is the part of conf that describes the ensemble. It ends with the text of the
// configuration, without a newline, as in ZooKeeper.
func membership(s *server.Server) string {
	c, config := s.Config(), s.Status().Ensemble
	if config == nil {
		return "serverId=0\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "serverId=%d\ninitLimit=%d\nsyncLimit=%d\nelectionAlg=3\n", c.ID, c.InitLimit, c.SyncLimit)
	peerType := oneIf(c.Observer)
	if m := config.Member(c.ID); m != nil {
		fmt.Fprintf(&b, "electionPort=%s\nquorumPort=%s\n", ports(m.Election), ports(m.Quorum))
		peerType = oneIf(m.Observer)
	}
	fmt.Fprintf(&b, "peerType=%d\n", peerType)
	if s.Role().Mode != server.ModeReadOnly {
		fmt.Fprintf(&b, "membership: \n%s", config.Text())
	}
	return b.String()
}

// ports joins the ports of a server that has several addresses.
func ports(addresses []ensemble.Address) string {
	var all []string
	for _, a := range addresses {
		all = append(all, strconv.Itoa(int(a.Port)))
	}
	return strings.Join(all, "|")
}

func (c Commands) envi(*server.Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Environment:\nzookeeper.version=%s\n", c.version())
	for _, kv := range environment() {
		fmt.Fprintf(&b, "%s=%s\n", kv[0], kv[1])
	}
	return b.String()
}

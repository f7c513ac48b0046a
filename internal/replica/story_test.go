package replica_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tracetest"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestEnsembleStories runs every file of testdata/ensemble: a sentence and a drawing on top,
// then blocks of commands, one per line, and after "----" what happened, in order. Messages are
// shown where they arrive, followed by their effects. After a line "briefly" only the outcome
// of the rest of its block is shown: what clients receive, which servers serve, and why others
// do not serve any more.
func TestEnsembleStories(t *testing.T) {
	tracetest.RunDir(t, "testdata/ensemble", playStory)
}

func playStory(t *testing.T, text string) string {
	t.Helper()
	p := &player{t: t}
	p.w = newWorld(t, func(format string, args ...any) { p.seen = append(p.seen, fmt.Sprintf(format, args...)) })
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		asked, _, _ := strings.Cut(block, "\n----")
		lines := strings.Split(strings.TrimSpace(asked), "\n")
		fmt.Fprintf(&out, "%s\n----\n", strings.Join(lines, "\n"))
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, "#"):
			case line == "briefly":
				p.brief = true
			default:
				p.command(line)
			}
		}
		p.brief = false
		if len(p.seen) == 0 {
			p.seen = append(p.seen, "nothing")
		}
		out.WriteString(strings.Join(p.seen, "\n") + "\n\n")
		p.seen = nil
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// player carries out a story's commands on a world.
type player struct {
	t     *testing.T
	w     *world
	seen  []string
	brief bool // only outcomes are shown
}

// commands has the function for each command, and its form in a comment. A, B are servers, C is
// a connection; "all" and nothing mean all servers.
var commands = map[string]func(*player, []string){
	"option":     (*player).option,     // option NAME=VALUE ...: before "servers"
	"servers":    (*player).servers,    // servers N [first=A] [observer=A,B]: with empty disks, none started
	"add":        (*player).add,        // add A [observer]: one that is in no configuration, started
	"start":      (*player).start,      // start [A ...]
	"kill":       (*player).kill,       // kill A: the disk keeps everything written
	"crash":      (*player).crash,      // crash A: the disk loses everything unsynced, and what is on its way is lost
	"wipe":       (*player).wipe,       // wipe A: it is down and gets an empty disk
	"cut":        (*player).cut,        // cut A B: what is on its way between them waits
	"heal":       (*player).heal,       // heal: nothing waits any more
	"break":      (*player).breakLinks, // break A B: the links between them end
	"drop":       (*player).drop,       // drop A B: what is on its way from A to B on links is lost, except their end
	"deliver":    (*player).deliver,    // deliver: between servers until quiet. deliver A B [N]: N messages from A to B
	"disk":       (*player).disk,       // disk A [N]: N operations of its disk, or all that wait
	"only":       (*player).only,       // only A: takes a snapshot, and everything before it is removed by hand
	"begin":      (*player).begin,      // begin A: a snapshot, as a server does now and then
	"finish":     (*player).finish,     // finish A: writes it
	"quiesce":    (*player).quiesce,    // quiesce: messages and disks until quiet; only the outcome is shown
	"tick":       (*player).tick,       // tick +MS [A ...]: time passes for all, and the servers are told
	"paused":     (*player).paused,     // paused N MS: the server has had no step for so long
	"pass":       (*player).pass,       // pass +MS: in ticks, with everything quiescent after each; only the outcome is shown
	"connect":    (*player).connect,    // connect C A [session=S1] [timeout=MS] [seen=ZXID] [password=wrong]
	"request":    (*player).request,    // request C OP ...: see request_test.go
	"reconfig":   (*player).reconfig,   // reconfig C [joining=A,B] [observing=A] [leaving=A,B] [members=A,B] [version=V]
	"touch":      (*player).touch,      // touch C: a ping of its client
	"disconnect": (*player).disconnect, // disconnect C
	"alone":      (*player).oracle,     // alone A: the oracle lets it go on without another
	"together":   (*player).oracle,     // together A: the oracle takes that back
	"lapse":      (*player).lapse,      // lapse A: the oracle's permission has ended by itself, without a message
	"full":       (*player).full,       // full A: its disk has no space for records
	"space":      (*player).full,       // space A: it has again
	"unsaved":    (*player).unsaved,    // unsaved A ...: its configuration file cannot be written any more
	"spoil":      (*player).spoil,      // spoil A PATH: its tree gets a znode that no transaction has created
	"pending":    (*player).pending,    // pending ID MEMBER ...: when they start, all have this proposal in their files, and not in their logs
	"show":       (*player).show,       // show: where every server is
}

func (p *player) command(line string) {
	f := strings.Fields(line)
	run := commands[f[0]]
	if run == nil {
		p.t.Fatalf("unknown command %q", line)
	}
	p.w.watcher.brief = p.brief || f[0] == "quiesce" || f[0] == "pass"
	run(p, f)
}

func (p *player) number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 0, 64)
	if err != nil {
		p.t.Fatalf("not a number: %q", text)
	}
	return n
}

func (p *player) server(text string) *server {
	s := p.w.servers[quorum.ID(p.number(text))]
	if s == nil {
		p.t.Fatalf("no server %q", text)
	}
	return s
}

// some are the named servers, or all.
func (p *player) some(f []string) []*server {
	var out []*server
	for _, text := range f {
		out = append(out, p.server(text))
	}
	if len(out) == 0 {
		out = p.w.all()
	}
	return out
}

func (p *player) client(text string) *client {
	c := p.w.clients[session.ConnID(p.number(text))]
	if c == nil {
		p.t.Fatalf("no connection %q", text)
	}
	return c
}

func (p *player) option(f []string) {
	o := &p.w.opts
	for _, arg := range f[1:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "counterMax":
			o.Zab.CounterMax = uint32(p.number(value))
		case "history":
			o.Zab.HistoryMax = int(p.number(value))
		case "forceSnapshot":
			o.Zab.ForceSnapshot = true
		case "oracle":
			o.Oracle = true
		case "masters":
			o.Zab.Masters = true
		case "linearizable":
			o.LinearizableReads = true
		case "reconfig":
			o.ReconfigEnabled = true
			o.Auth.SkipACL = true
		case "local":
			o.LocalSessions = true
		case "upgrade":
			o.UpgradeSessions = true
		case "readOnly":
			o.ReadOnly = true
		default:
			p.t.Fatalf("unknown option %q", arg)
		}
	}
}

func (p *player) ids(text string) []quorum.ID {
	var out []quorum.ID
	for digits := range strings.SplitSeq(text, ",") {
		out = append(out, quorum.ID(p.number(digits)))
	}
	return out
}

func (p *player) servers(f []string) {
	var observers []quorum.ID
	for _, arg := range f[2:] {
		if first, ok := strings.CutPrefix(arg, "first="); ok {
			p.w.first = quorum.ID(p.number(first))
		} else {
			observers = p.ids(strings.TrimPrefix(arg, "observer="))
		}
	}
	p.w.found(int(p.number(f[1])), observers...)
}

// add starts a server that the ensemble does not have yet. It knows the others from its
// configuration file, which includes the server itself and has the version of the first start.
func (p *player) add(f []string) {
	id := quorum.ID(p.number(f[1]))
	s := p.w.add(id, len(f) > 2)
	s.saved = p.w.with(s)
	s.start()
}

func (p *player) start(f []string) {
	for _, s := range p.some(f[1:]) {
		if s.replica == nil {
			s.start()
		}
	}
}

func (p *player) kill(f []string) { p.server(f[1]).kill() }

func (p *player) crash(f []string) { p.server(f[1]).crash(0, 1) }

func (p *player) wipe(f []string) {
	s := p.server(f[1])
	if s.replica != nil {
		p.t.Fatal("a server that is up keeps its disk")
	}
	p.w.watcher.wiped = true
	s.format(false)
}

func (p *player) cut(f []string) { p.w.cuts[pairOf(p.server(f[1]), p.server(f[2]))] = true }

func (p *player) heal([]string) { clear(p.w.cuts) }

func (p *player) breakLinks(f []string) { p.w.breakLinks(p.server(f[1]), p.server(f[2])) }

func (p *player) drop(f []string) {
	from, to := p.server(f[1]), p.server(f[2])
	for _, l := range p.w.lanes {
		if l.end != nil && l.from == from && l.to == to {
			l.parcels = slices.DeleteFunc(l.parcels, func(c parcel) bool { c.end(); return !c.closes })
		}
	}
}

// only removes everything from a disk except the newest snapshot.
func (p *player) only(f []string) {
	s := p.server(f[1])
	s.disk.Log().Roll()
	_, err := replicadisk.Begin(s.replica.Tree(), s.replica.Leases()).Save(s.disk.Store(), nil)
	must(p.t, err)
	dir := dataDir + "/version-2"
	names, err := s.mem.List(dir)
	must(p.t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "log.") || name == txnlog.MarkName || name == "snapshot.0" {
			must(p.t, s.mem.Remove(dir+"/"+name))
		}
	}
	must(p.t, s.mem.SyncDir(dir))
}

// begin begins a snapshot beside the log, which ends with the role.
func (p *player) begin(f []string) {
	s := p.server(f[1])
	s.snapshot = replicadisk.BeginLogged(s.replica)
}

func (p *player) finish(f []string) {
	s := p.server(f[1])
	_, err := s.snapshot.Save(s.disk.Store(), nil)
	if err == nil {
		s.say("snapshot of %s", zab.FormatZxid(s.snapshot.Zxid()))
	} else {
		s.say("no snapshot: %v", err)
	}
}

func (p *player) deliver(f []string) {
	if len(f) == 1 {
		p.w.deliver()
		return
	}
	from, to, n := p.server(f[1]), p.server(f[2]), int64(1)
	if len(f) > 3 {
		n = p.number(f[3])
	}
	for _, l := range slices.Clone(p.w.lanes) {
		for l.end != nil && l.from == from && l.to == to && n > 0 && l.moves() {
			n--
		}
	}
	if n > 0 {
		p.t.Fatalf("%q: %d messages are not there", f, n)
	}
}

func (p *player) disk(f []string) {
	s, n := p.server(f[1]), int64(1<<30)
	if len(f) > 2 {
		n = p.number(f[2])
	}
	for ; n > 0 && s.works(); n-- {
		continue
	}
}

func (p *player) quiesce([]string) { p.w.quiesce() }

func (p *player) pass(f []string) { p.w.pass(p.number(f[1])) }

func (p *player) tick(f []string) { p.w.tick(p.number(f[1]), p.some(f[2:])) }

func (p *player) connect(f []string) {
	h := handshake{timeoutMs: 6000}
	for _, arg := range f[3:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "session":
			h.session = p.w.names[p.number(value[1:])-1]
			h.seen = p.w.watcher.seen[h.session]
		case "timeout":
			h.timeoutMs = int32(p.number(value))
		case "seen":
			epoch, counter, _ := strings.Cut(value, ".")
			h.seen = zk.MakeZxid(uint32(p.number(epoch)), uint32(p.number(counter)))
		case "password":
			h.wrong = true
		case "readOnly":
			h.readOnly = true
		default:
			p.t.Fatalf("unknown argument %q", arg)
		}
	}
	p.w.connect(session.ConnID(p.number(f[1])), p.server(f[2]), h)
}

func (p *player) request(f []string) { p.client(f[1]).request(replica.ParseRequest(p.t, f[2:])) }

func (p *player) reconfig(f []string) {
	r := &zk.Reconfig{ConfigID: -1}
	var joining []string
	for _, arg := range f[2:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "joining", "observing":
			for _, id := range p.ids(value) {
				joining = append(joining, p.w.line(id, key == "observing"))
			}
		case "leaving":
			r.Leaving = &value
		case "members":
			var lines []string
			for _, id := range p.ids(value) {
				lines = append(lines, p.w.line(id, false))
			}
			text := strings.Join(lines, ",")
			r.NewMembers = &text
		case "version":
			r.ConfigID = p.number(value)
		}
	}
	if joining != nil {
		text := strings.Join(joining, ",")
		r.Joining = &text
	}
	p.client(f[1]).request(&zk.Request{Op: zk.OpReconfig, Reconfig: r})
}

func (p *player) touch(f []string) {
	c := p.client(f[1])
	c.server.push(replica.Event{Kind: replica.EventTouch, Conn: c.id})
}

// paused lets time pass for all; one server finds only later what was sent meanwhile.
func (p *player) paused(f []string) {
	p.w.tick(p.number(f[2]), nil)
	p.server(f[1]).push(replica.Event{Kind: replica.EventPaused}, replica.Event{Kind: replica.EventTick})
}

func (p *player) disconnect(f []string) { p.client(f[1]).leave() }

func (p *player) unsaved(f []string) {
	for _, s := range p.some(f[1:]) {
		s.unsaved = true
	}
}

func (p *player) full(f []string) {
	s := p.server(f[1])
	s.full = f[0] == "full"
	s.push(replica.Event{Kind: replica.EventDisk, Full: s.full})
}

func (p *player) show([]string) { p.w.show() }

// spoil changes a tree behind the replica's back, as damaged memory would.
func (p *player) spoil(f []string) {
	p.w.spoil(p.server(f[1]), f[2])
}

func (w *world) spoil(s *server, path string) {
	t := s.replica.Tree()
	var applied tree.Applied
	t.Lock()
	t.Apply(&zk.TxnHeader{Zxid: t.LastZxid(), Op: zk.OpCreate}, &zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()}, &applied)
	t.Unlock()
	w.watcher.spoilt[s.id] = true
}

// pending writes a proposal into the files of all servers.
func (p *player) pending(f []string) {
	text := ""
	for _, member := range f[2:] {
		id, role, _ := strings.Cut(member, ":")
		text += p.w.line(quorum.ID(p.number(id)), role == "observer") + "\n"
	}
	config, err := ensemble.Parse(fmt.Sprintf("%sversion=%x", text, p.number(f[1])))
	must(p.t, err)
	p.w.opts.Pending = config
}

func (p *player) lapse(f []string) { p.server(f[1]).alone = false }

// oracle sets the oracle's answer for a server.
func (p *player) oracle(f []string) {
	s := p.server(f[1])
	s.alone = f[0] == "alone"
	s.push(replica.Event{Kind: replica.EventTick})
}

package clientsession

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/tracetest"
	"github.com/conclave-project/conclave/zk"
)

// TestTraces runs every file of testdata: a title, then blocks of commands
// ("MS EVENT ..."), each followed by "----" and the effects it had. Commands:
//
//	config key=value ...                   a new machine, at time 0
//	MS tick
//	MS wake                                tick when the machine wants one, at MS at the latest
//	MS resolved ADDRESS... [...]           the dots: and some that could not be looked up
//	MS dialed | lost                       the current connection; lost-old is an earlier one
//	MS greeted session=N timeout=MS [ro]   session=0 refuses
//	MS reply XID [zxid=N] [code=N]         XID: a number, or ping, auth, set
//	MS event TYPE PATH
//	MS flushed
//	MS probed ADDRESS rw|no
//	MS submit NAME OP [PATH] [watch=KIND|auth=TEXT|type=N]
//	MS cancel NAME
//	MS unwatch NAME
//	MS reseat | detach | close NAME
func TestTraces(t *testing.T) {
	tracetest.Run(t, runTrace)
}

// player is the stage of a trace: the machine, and the names of what it was given.
type player struct {
	t     *testing.T
	m     *Machine
	calls map[string]*Call
	out   []string
}

func runTrace(t *testing.T, text string) string {
	t.Helper()
	p := &player{t: t}
	p.config(nil)
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		p.out = nil
		for line := range strings.SplitSeq(strings.TrimSpace(commands), "\n") {
			if !strings.HasPrefix(line, "#") {
				p.play(strings.Fields(line))
			}
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", strings.TrimSpace(commands), strings.Join(append(p.out, p.describe()), "\n"))
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func (p *player) config(fields []string) {
	config := Config{TimeoutMs: 9000, Seed: 1}
	for key, value := range pairs(fields) {
		n, _ := strconv.ParseInt(value, 0, 64)
		switch key {
		case "timeout":
			config.TimeoutMs = int32(n)
		case "session":
			config.Session = zk.SessionID(n)
		case "zxid":
			config.LastZxid = zk.Zxid(n)
		case "ro":
			config.ReadOnly = n != 0
		case "soon":
			config.LeaveSoon = n != 0
		case "rearm":
			config.RearmBytesMax = int(n)
		case "seed":
			config.Seed = uint64(n)
		default:
			p.t.Fatalf("config %s", key)
		}
	}
	p.m, p.calls = New(config, 0), map[string]*Call{}
}

// pairs reads key=value fields; a field without "=" has the value "".
func pairs(fields []string) map[string]string {
	out := map[string]string{}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		out[key] = value
	}
	return out
}

func (p *player) play(fields []string) {
	p.t.Helper()
	if fields[0] == "config" {
		p.config(fields[1:])
		return
	}
	now, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || len(fields) < 2 {
		p.t.Fatalf("bad line %q", fields)
	}
	if fields[1] == "wake" {
		for at := p.m.WakeMs(); at <= now; at = p.m.WakeMs() {
			p.out = append(p.out, fmt.Sprintf("at %d:", at))
			p.step(at, &Event{Kind: Tick})
		}
		return
	}
	p.step(now, p.event(fields[1], fields[2:]))
}

func (p *player) step(nowMs int64, e *Event) {
	for _, effect := range p.m.Step(nowMs, e) {
		p.out = append(p.out, describeEffect(&effect))
	}
}

var traceXids = map[string]zk.Xid{"ping": zk.XidPing, "auth": zk.XidAuth, "set": zk.XidSetWatches}

func (p *player) event(verb string, args []string) *Event {
	p.t.Helper()
	e := &Event{Conn: p.m.conn}
	v := pairs(args)
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(v[key], 0, 64)
		return n
	}
	kinds := map[string]EventKind{"tick": Tick, "resolved": Resolved, "dialed": Dialed, "lost": Lost, "lost-old": Lost,
		"greeted": Greeted, "reply": Replied, "event": Notified, "flushed": Flushed, "probed": Probed,
		"submit": Submit, "cancel": Cancel, "unwatch": Unwatch, "reseat": Reseat, "detach": Detach, "close": Close}
	kind, ok := kinds[verb]
	if !ok {
		p.t.Fatalf("unknown event %q", verb)
	}
	e.Kind = kind
	switch verb {
	case "resolved":
		e.Found = !slices.Contains(args, "...")
		e.Addresses = slices.DeleteFunc(args, func(arg string) bool { return arg == "..." })
	case "lost":
		e.Cause = errors.New("cable cut")
	case "lost-old":
		e.Conn = p.m.conn - 1
	case "greeted":
		_, ro := v["ro"]
		e.Greeting = Greeting{TimeoutMs: int32(number("timeout")), Session: zk.SessionID(number("session")), ReadOnly: ro}
	case "reply":
		xid, known := traceXids[args[0]]
		if !known {
			n, _ := strconv.Atoi(args[0])
			xid = zk.Xid(n)
		}
		e.Xid, e.Zxid, e.Code = xid, zk.Zxid(number("zxid")), zk.Code(number("code"))
	case "event":
		e.Watched = zk.Event{Type: eventType(p.t, args[0]), State: zk.StateSyncConnected, Path: args[1], Zxid: zk.Zxid(number("zxid"))}
	case "probed":
		e.Addresses, e.Found = args[:1], args[1] == "rw"
	case "submit":
		e.Call = p.newCall(args[0], args[1:], v)
	case "close":
		e.Call = p.newCall(args[0], []string{"closeSession"}, nil)
	case "cancel":
		e.Call = p.calls[args[0]]
	case "unwatch":
		e.Watch = p.calls[args[0]].Watch
	}
	return e
}

func (p *player) newCall(name string, args []string, v map[string]string) *Call {
	p.t.Helper()
	call := &Call{Owner: name, Request: zk.Request{Op: opNamed(p.t, args[0])}}
	if len(args) > 1 && strings.HasPrefix(args[1], "/") {
		call.Request.Path = args[1]
	}
	if kind, ok := v["watch"]; ok {
		call.Watch = &Watch{Path: call.Request.Path, Kind: WatchKind(slices.Index(watchKindNames[:], kind)), Owner: name}
		call.Request.Watch = call.Watch.Kind.OneShot()
	}
	if credential, ok := v["auth"]; ok {
		call.Request.Scheme, call.Request.Data = "digest", []byte(credential)
	}
	if kind, ok := v["type"]; ok {
		n, _ := strconv.Atoi(kind)
		call.Request.Watcher = zk.WatcherType(n)
	}
	p.calls[name] = call
	return call
}

func opNamed(t *testing.T, name string) zk.Op {
	t.Helper()
	for op := zk.Op(-11); op <= zk.OpWhoAmI; op++ {
		if op.String() == name {
			return op
		}
	}
	t.Fatalf("unknown op %q", name)
	return 0
}

func eventType(t *testing.T, name string) zk.EventType {
	t.Helper()
	for kind := zk.EventNone; kind <= zk.EventPersistentWatchRemoved; kind++ {
		if kind.String() == name {
			return kind
		}
	}
	t.Fatalf("unknown event type %q", name)
	return 0
}

var phaseNames = [phaseCount]string{"pausing", "resolving", "dialling", "greeting", "attached", "closing", "ended"}

// describe returns the last line of a block: the phase of the machine, and when it wants to be
// woken.
func (p *player) describe() string {
	wake := "never"
	if at := p.m.WakeMs(); at != never {
		wake = strconv.FormatInt(at, 10)
	}
	return fmt.Sprintf("(%s, wake %s)", phaseNames[p.m.phase], wake)
}

func describeEffect(e *Effect) string {
	switch e.Kind {
	case Resolve:
		return "resolve"
	case Dial:
		return fmt.Sprintf("%d: dial %s within %d", e.Conn, e.Address, e.WaitMs)
	case Greet:
		g := e.Greeting
		return fmt.Sprintf("%d: greet session %v timeout %d zxid %v read-only %v",
			e.Conn, g.Session, g.TimeoutMs, e.LastZxid, g.ReadOnly)
	case Send:
		return fmt.Sprintf("%d: send %s", e.Conn, describeRequest(e.Request))
	case Drop:
		return fmt.Sprintf("%d: drop", e.Conn)
	case Complete:
		text := fmt.Sprintf("%v is complete: %v", e.Call.Owner, e.Outcome)
		if e.Replied {
			return text + fmt.Sprintf(", reply %d (%v)", int(e.Code), e.Code)
		}
		return text + fmt.Sprintf(", %v", e.Err)
	case Notify:
		return fmt.Sprintf("%v sees %v %s", e.Watch.Owner, e.Watched.Type, e.Watched.Path)
	case EndWatch:
		return fmt.Sprintf("%v watches no more: %v", e.Watch.Owner, e.Err)
	case EnterState:
		return fmt.Sprintf("state %v, %v", e.State, e.Err)
	case Probe:
		return "probe " + e.Address
	}
	return "unknown effect"
}

func describeRequest(r *zk.Request) string {
	text := fmt.Sprintf("%d %v", r.Xid, r.Op)
	if r.Path != "" {
		text += " " + r.Path
	}
	if r.Op == zk.OpAuth {
		text += " " + string(r.Data)
	}
	if r.Op == zk.OpRemoveWatches {
		text += fmt.Sprintf(" type %d", r.Watcher)
	}
	if w := r.SetWatches; w != nil {
		text += fmt.Sprintf(" since %v", w.RelativeZxid)
		for i, paths := range [][]string{w.Data, w.Exist, w.Child, w.Persistent, w.Recursive} {
			if len(paths) > 0 {
				text += fmt.Sprintf(" %v %v", WatchKind(i), paths)
			}
		}
	}
	return text
}

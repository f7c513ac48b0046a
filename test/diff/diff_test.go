//go:build linux

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

func TestSameSeedMakesTheSameScript(t *testing.T) {
	a, b := generate(7, 500), generate(7, 500)
	if !reflect.DeepEqual(a, b) {
		t.Error("two scripts of one seed differ")
	}
	if reflect.DeepEqual(a.steps, generate(8, 500).steps) {
		t.Error("two seeds make one script")
	}
}

func TestScriptsReachEveryOperationAndKindOfStep(t *testing.T) {
	ops, kinds := map[zk.Op]bool{}, map[stepKind]bool{}
	for seed := range uint64(10) {
		for _, s := range generate(seed, 2000).steps {
			kinds[s.kind] = true
			if s.kind == stepRequest {
				ops[s.op] = true
			}
		}
	}
	for op := zk.OpCloseSession; op <= zk.OpWhoAmI; op++ {
		if op.Known() && !ops[op] {
			t.Errorf("no %s in ten scripts", op)
		}
	}
	for kind := stepConnect; kind < stepQuiesce; kind++ {
		if kind != stepProve && !kinds[kind] {
			t.Errorf("no step of kind %d in ten scripts", kind)
		}
	}
}

// Some requests would end an Apache server; the answers to others depend on luck.
func TestScriptsStayOutOfKnownDifferences(t *testing.T) {
	for seed := range uint64(20) {
		for i, s := range generate(seed, 2000).steps {
			if s.kind != stepRequest {
				continue
			}
			if s.op == zk.OpDeleteContainer || s.op == zk.OpCreateSession {
				t.Errorf("seed %d step %d: %s", seed, i, s.text)
			}
			var r zk.Request
			frame := appendStep(nil, &s, 0)[wire.PrefixBytes:]
			if s.op == zk.OpCreateTTL && wire.DecodeRequest(frame, len(frame), &r) == nil &&
				r.Mode >= 0 && r.Mode < zk.PersistentTTL && r.TTL < 0 {
				t.Errorf("seed %d step %d: %s", seed, i, s.text)
			}
		}
	}
}

// A write that cannot be decoded stops an ensemble of Apache's.
func TestWritesOfScriptsForEnsemblesCanBeDecoded(t *testing.T) {
	for seed := range uint64(20) {
		for i, s := range generateInEnsemble(seed, 2000, 3).steps {
			var r zk.Request
			frame := appendStep(nil, &s, 0)[wire.PrefixBytes:]
			if s.kind == stepRequest && s.op.IsWrite() && !s.ends && wire.DecodeRequest(frame, len(frame), &r) != nil {
				t.Errorf("seed %d step %d: %s", seed, i, s.text)
			}
		}
	}
}

func TestKeptStepsArePrintedAsTheyAreRead(t *testing.T) {
	keep := []int{0, 3, 7, 8, 9, 12}
	text := showKeep(keep)
	if text != "0,3,7-9,12" {
		t.Errorf("kept steps are written %q", text)
	}
	if got, err := parseKeep(text); err != nil || !reflect.DeepEqual(got, keep) {
		t.Errorf("%q reads as %v, %v", text, got, err)
	}
	for _, bad := range []string{"x", "1-", "-1", "1-99999999999"} {
		if _, err := parseKeep(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestFirstDifferenceIsFoundAndShown(t *testing.T) {
	left := transcript{{"a"}, {"b", "c", "d"}, {"e"}}
	right := transcript{{"a"}, {"b", "x", "d"}, {"f"}}
	if at := firstDifference(left, right); at != 1 {
		t.Fatalf("first difference at %d", at)
	}
	text := describe(left, right, 1, [2]string{"L", "R"})
	if !strings.Contains(text, "both  b") || !strings.Contains(text, "L  c") || !strings.Contains(text, "R  x") || !strings.Contains(text, "both  d") {
		t.Errorf("shown as:\n%s", text)
	}
	if firstDifference(left, left) != -1 {
		t.Error("a transcript differs from itself")
	}
}

func newRun() *run {
	return &run{names: map[zk.SessionID]string{0: "0", 5: "s1"}, ordered: map[zk.Zxid]bool{}, out: make(transcript, 1)}
}

func TestEventsOfAClosedSessionAreSortedOthersAreNot(t *testing.T) {
	event := func(path string, z zk.Zxid) zk.Event { return zk.Event{Type: zk.EventNodeDeleted, Path: path, Zxid: z} }
	r := newRun()
	r.ordered[8] = true
	r.sayEvents(0, 1, []zk.Event{event("/b", 7), event("/a", 7), event("/d", 8), event("/c", 8), event("/f", -1), event("/e", -1)})
	var paths []string
	for _, l := range r.out[0] {
		paths = append(paths, strings.Split(l, `"`)[1])
	}
	if got := strings.Join(paths, ""); got != "/a/b/d/c/f/e" {
		t.Errorf("order %s", got)
	}
}

func TestBytesThatTheDecoderDoesNotSeeAreShown(t *testing.T) {
	r := newRun()
	body := jute.AppendString(nil, "/a")
	h := wire.ReplyHeader{Xid: 1, Zxid: 2}
	if got := r.reply(zk.OpCreate, h, body); got != `xid=1 zxid=2 err=0 path="/a"` {
		t.Errorf("reply: %s", got)
	}
	if got := r.reply(zk.OpCreate, h, append(body, 9)); !strings.Contains(got, "raw=000000022f6109") {
		t.Errorf("a byte more is not shown: %s", got)
	}
	if got := r.reply(zk.OpCreate, h, body[:3]); !strings.Contains(got, "undecodable=000000") {
		t.Errorf("a short body is not shown: %s", got)
	}
	h.Code = zk.ErrNoNode
	if got := r.reply(zk.OpCreate, h, []byte{1}); got != "xid=1 zxid=2 err=-101 body=01" {
		t.Errorf("the body of an error is not shown: %s", got)
	}
}

func TestSessionIdsInFourLetterWordsGetTheirNames(t *testing.T) {
	r := newRun()
	r.names[0x100018bcfe568000] = "s3"
	line := ` /127.0.0.1:4711[1](queued=0,recved=3,sent=4,sid=0x100018bcfe568000,lop=PING,est=17)`
	if got := r.named(brief(line)); got != ` /ADDRESS[1](queued=0,recved=N,sent=N,sid=s3,lop=PING,est=N)` {
		t.Errorf("line is %s", got)
	}
}

// The vectors were captured on the wire.
func TestPasswordIsDerivedFromTheSessionId(t *testing.T) {
	want := zk.Password{0xf2, 0x2a, 0xcd, 0x4a, 0x97, 0xe6, 0x9d, 0x6d, 0x20, 0xa4, 0x9b, 0xb6, 0x38, 0xea, 0xdb, 0x38}
	if got := passwordOf(0x1000000000000000); got != want {
		t.Errorf("password %x, want %x", got, want)
	}
}

func TestEveryKnownDifferenceIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "differences.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range knowns {
		if !strings.Contains(string(text), "\n### "+k.heading+"\n") {
			t.Errorf("docs/differences.md has no heading %q", k.heading)
		}
	}
}

// Without a row for an operation, nobody would know who may do it.
func TestEveryOperationHasARowInTheMatrix(t *testing.T) {
	for op := zk.OpCloseSession; op <= zk.OpGetChildrenPage+100; op++ {
		row, has := matrixRows[op]
		if op.Known() != has {
			t.Errorf("%v: known is %v, and a row is there: %v", op, op.Known(), has)
		}
		if has && (row.about == nil) == (row.why == "") {
			t.Errorf("%v: want requests, or the reason why there are none", op)
		}
	}
	ids := 0
	for _, row := range granted {
		ids += len(row.ids)
	}
	for _, callers := range [][]caller{withPasswords, withProofs} {
		type who struct {
			op   zk.Op
			conn int
		}
		asked := map[who]int{}
		for _, s := range matrix(callers).steps {
			asked[who{s.op, s.conn}]++
		}
		for op, row := range matrixRows {
			for i := range callers {
				if n := asked[who{op, 1 + i}]; row.about != nil && n < 5*ids {
					t.Errorf("%v is asked %d times by %v", op, n, callers[i])
				}
			}
		}
	}
}

// The schemes are the ones that the server's own rules know, whether switched on or not.
func TestEverySchemeHasARowInTheMatrix(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "auth", "auth.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"world": true, "auth": true} // they occur only in ACLs, and cannot be proved
	ast.Inspect(file, func(n ast.Node) bool {
		f, is := n.(*ast.FuncDecl)
		if !is || f.Name.Name != "scheme" {
			return true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if clause, is := n.(*ast.CaseClause); is {
				for _, e := range clause.List {
					name, err := strconv.Unquote(e.(*ast.BasicLit).Value)
					if err != nil {
						t.Error(err)
					}
					known[name] = true
				}
			}
			return true
		})
		return false
	})
	if len(known) < 7 {
		t.Fatalf("package auth knows only %v", known)
	}
	for name := range known {
		row, has := granted[name]
		if !has || (row.ids == nil) == (row.why == "") {
			t.Errorf("scheme %q: want ids, or the reason why there are none", name)
		}
	}
	for name := range granted {
		if !known[name] {
			t.Errorf("package auth does not know scheme %q", name)
		}
	}
	// There is a caller for each way to prove a name.
	all := fmt.Sprint(withPasswords, withProofs)
	for _, want := range []string{"digest bob", "digest super", "sasl bob", "sasl root", "x509 bob", "x509 root", "nobody"} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody asks as %s", want)
		}
	}
}

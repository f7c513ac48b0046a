//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// A known is an intended difference between the two servers. Random scripts avoid it; this
// is what each server must answer there.
type known struct {
	// heading is the heading of the entry in docs/differences.md with the reason.
	heading string

	steps []step

	// apache is the answer of Apache ZooKeeper 3.9.5 to the last step; nil if the script is
	// not played there, because the answer depends on luck or the script kills the server.
	apache []string

	// conclave is Conclave's answer to the last step.
	conclave []string
}

// request returns a step on connection 0.
func request(s step, xid zk.Xid) step {
	s.kind, s.xid = stepRequest, xid
	return s
}

func alone(s step) step {
	s.alone = true
	return s
}

func connected(steps ...step) []step {
	return append([]step{{kind: stepConnect, timeoutMs: sessionTimeoutMs}}, steps...)
}

// knowns is the table. Session s0 is the script's own.
var knowns = []known{
	{
		heading: "Operations that clients must not send",
		steps: connected(request(alone(step{op: zk.OpDeleteContainer, text: "deleteContainer /missing",
			body: jute.AppendString(nil, "/missing"), ends: true}), 1)),
		apache:   []string{"xid=1 zxid=3 err=-101", "c0: no answer"},
		conclave: []string{"xid=1 zxid=-1 err=-6", "c0: closed by the server"},
	},
	{
		heading: "Operations that clients must not send",
		steps: connected(request(alone(step{op: zk.OpCreateSession, text: "createSession",
			body: u32(30000), ends: true}), 1)),
		conclave: []string{"xid=1 zxid=-1 err=-6", "c0: closed by the server"},
	},
	{
		heading:  "createTTL without a TTL flag and with a negative ttl",
		steps:    connected(request(createStep(zk.OpCreateTTL, "/t", nil, openACL, 0, -1), 1)),
		conclave: []string{"xid=1 zxid=3 err=-8"},
	},
	{
		heading: "A pipelined setACL",
		steps: connected(
			request(createStep(zk.OpCreate, "/t", nil, openACL, 0, 0), 1),
			request(step{op: zk.OpSetACL, text: "setACL /t to none",
				body: append(aclList{entry(0, "world", "anyone")}.append(jute.AppendString(nil, "/t")), u32(-1)...)}, 2),
			request(createStep(zk.OpCreate, "/t/u", nil, openACL, 0, 0), 3)),
		conclave: []string{"xid=3 zxid=5 err=-102"},
	},
	{
		heading: "createContainer with an ephemeral flag",
		steps: connected(
			request(createStep(zk.OpCreateContainer, "/t", nil, openACL, 1, 0), 1),
			request(createStep(zk.OpCreate, "/t/u", nil, openACL, 0, 0), 2)),
		conclave: []string{`xid=2 zxid=4 err=0 path="/t/u"`},
	},
	{
		heading: "A multi that fails as a whole",
		steps: connected(
			request(multiOf(createStep(zk.OpCreate, "/n-", nil, openACL, 2, 0),
				createStep(zk.OpCreate, "/t", nil, aclList{{31, nullable{text: "world"}, nullable{null: true}}}, 0, 0)), 1),
			request(createStep(zk.OpCreate, "/n-", nil, openACL, 2, 0), 2)),
		conclave: []string{`xid=2 zxid=4 err=0 path="/n-0000000000"`},
	},
	{
		heading: "Null ids in ACLs",
		steps: connected(request(createStep(zk.OpCreate, "/t", nil,
			aclList{{31, nullable{text: "world"}, nullable{null: true}}}, 0, 0), 1)),
		apache:   []string{"xid=1 zxid=3 err=-5"},
		conclave: []string{"xid=1 zxid=3 err=-114"},
	},
	{
		heading: "A read and a null ACL in one multi",
		steps: connected(request(multiOf(pathStep(zk.OpGetChildren, "/", []byte{0}),
			createStep(zk.OpCreate, "/t", nil, nil, 0, 0)), 1)),
		apache:   []string{"xid=1 zxid=2 err=-5"},
		conclave: []string{"xid=1 zxid=3 err=-5"},
	},
	{
		heading: "The null path of a write",
		steps: connected(request(step{op: zk.OpSetData, text: "setData null",
			body: append(jute.AppendBytes(u32(-1), nil), u32(-1)...)}, 1)),
		apache:   []string{"xid=1 zxid=3 err=-8"},
		conclave: []string{"xid=1 zxid=2 err=-5"},
	},
	{
		heading: "setWatches with a null list",
		steps: connected(request(step{op: zk.OpSetWatches, text: "setWatches [/missing] null null", body: append(
			jute.AppendStrings(jute.AppendLong(nil, 0), []string{"/missing"}), append(u32(-1), u32(-1)...)...)}, 1)),
		apache:   []string{`c0: event NodeDeleted "/missing" zxid=-1 state=3`, "xid=1 zxid=2 err=-5"},
		conclave: []string{"xid=1 zxid=2 err=-5"},
	},
	{
		heading:  "The empty path in getAllChildrenNumber",
		steps:    connected(request(pathStep(zk.OpGetAllChildrenNumber, "", nil), 1)),
		apache:   []string{"xid=1 zxid=2 err=0 count=4"},
		conclave: []string{"xid=1 zxid=2 err=0 count=3"},
	},
	{
		heading:  "sync of a null path",
		steps:    connected(request(step{op: zk.OpSync, text: "sync null", body: u32(-1)}, 1)),
		apache:   []string{`xid=1 zxid=2 err=0 raw=ffffffff path=""`},
		conclave: []string{`xid=1 zxid=2 err=0 path=""`},
	},
	{
		heading:  "A null SASL token",
		steps:    connected(request(alone(step{op: zk.OpSASL, text: "sasl null", body: jute.AppendBytes(nil, nil)}), 1)),
		apache:   []string{"c0: closed by the server"},
		conclave: []string{"xid=1 zxid=0 err=0 token=null", "xid=-2 zxid=2 err=0"},
	},
	{
		heading:  "Paths that are not UTF-8, or above U+FFFF",
		steps:    connected(request(pathStep(zk.OpSync, "/\xff", nil), 1)),
		apache:   []string{"xid=1 zxid=2 err=0 path=\"/\ufffd\""},
		conclave: []string{`xid=1 zxid=2 err=0 path="/\xff"`},
	},
	{
		heading: "A wrong password for a session that is connected",
		steps:   connected(step{kind: stepResume, conn: 1, timeoutMs: sessionTimeoutMs, mode: resumeBadPassword}),
		apache: []string{"c0: closed by the server", "refused timeout=0 password=00000000000000000000000000000000",
			"then: closed by the server"},
		conclave: []string{"c0: no answer", "refused timeout=0 password=00000000000000000000000000000000",
			"then: closed by the server"},
	},
	{
		heading:  "A watch on a null path",
		steps:    connected(request(step{op: zk.OpAddWatch, text: "addWatch null", body: append(u32(-1), u32(0)...)}, 1)),
		apache:   []string{"xid=1 zxid=2 err=0"},
		conclave: []string{"xid=1 zxid=2 err=-5"},
	},
}

// multiOf returns a multi of the steps.
func multiOf(subs ...step) step {
	s := step{op: zk.OpMulti}
	var texts []string
	for _, sub := range subs {
		s.body = append(header(s.body, sub.op, false, -1), sub.body...)
		texts = append(texts, sub.text)
	}
	s.body = header(s.body, -1, true, -1)
	s.text = "multi {" + strings.Join(texts, "; ") + "}"
	return s
}

// checkKnown plays the table on a server of the kind and reports answers that differ from
// the table.
func checkKnown(ctx context.Context, kind servers.Kind) error {
	p, err := newPool(ctx, kind, never)
	if err != nil {
		return err
	}
	defer p.stop()
	wrong := 0
	for i := range knowns {
		k := &knowns[i]
		want := k.conclave
		if strings.HasPrefix(kind.Name(), "apache") {
			want = k.apache
		}
		if want == nil {
			continue
		}
		t, err := p.play(&script{steps: k.steps}, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", k.heading, err)
		}
		last := len(k.steps) - 1
		if got := t[last]; !slices.Equal(got, want) {
			wrong++
			fmt.Printf("%s: %s\n  %s\n  says %q\n  not  %q\n", kind.Name(), k.heading, k.steps[last].String(), got, want)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("diff: %d known differences of %s are not as known.go says", wrong, kind.Name())
	}
	fmt.Printf("%s: known differences are as known.go says\n", kind.Name())
	return nil
}

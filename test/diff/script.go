//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// stepKind is the kind of a step.
type stepKind int

const (
	stepConnect stepKind = iota // new session on a new connection
	stepResume                  // known session on a new connection
	stepDrop                    // close a connection silently
	stepRequest                 // one request
	stepBytes                   // raw bytes, then wait for a reply or the end
	stepHello                   // raw bytes on a new connection, and what comes of them
	stepRestart                 // kill the server, and start it again
	stepExpire                  // let a new session with an ephemeral expire
	stepProve                   // prove a name by SASL
	stepQuiesce                 // wait until the server changes nothing any more
)

// resumeMode is how a session is resumed.
type resumeMode int

const (
	resumeGood        resumeMode = iota
	resumeBadPassword            // one byte wrong
	resumeNoPassword             // zero bytes long
	resumeAhead                  // claims to have seen a future zxid
	resumeUnknown                // an id that was never issued
)

// A step is one line of a script. The kind determines which fields count.
type step struct {
	kind stepKind
	conn int // connection slot

	// connect, resume, expire
	server     int // index of the server
	timeoutMs  int32
	noReadOnly bool // leave out the read-only byte, as old clients do
	mode       resumeMode
	session    int // resume: index of the step that made it

	certificate string // connect: with TLS and the script's certificate of this name
	user        string // prove: the user, with saslPassword

	// request, bytes, hello
	op    zk.Op
	xid   zk.Xid
	body  []byte // without header; bytes, hello: all of it
	text  string // for people
	alone bool   // not pipelined with its neighbours
	ends  bool   // must not be pipelined with its neighbours
	seen  bool   // setWatches: the first 8 bytes become the zxid last seen less back
	back  int64
}

// A script is what is generated from one seed.
type script struct {
	seed  uint64
	steps []step
	shows map[string]*tls.Config // by the name of a step's certificate

	ensemble bool // for a server of an ensemble
}

// String returns the step in readable form.
func (s *step) String() string {
	at := when(s.server > 0, fmt.Sprintf(" at server %d", s.server))
	switch s.kind {
	case stepConnect:
		return fmt.Sprintf("c%d connect%s timeout=%d%s%s", s.conn, at, s.timeoutMs, when(s.noReadOnly, " no-read-only-byte"),
			when(s.certificate != "", " with the certificate of "+s.certificate))
	case stepResume:
		mode := [...]string{"", " bad-password", " no-password", " zxid-ahead", " unknown-session"}[s.mode]
		return fmt.Sprintf("c%d resume s%d%s timeout=%d%s%s", s.conn, s.session, at, s.timeoutMs, mode,
			when(s.noReadOnly, " no-read-only-byte"))
	case stepDrop:
		return fmt.Sprintf("c%d drop", s.conn)
	case stepRequest:
		return fmt.Sprintf("c%d %s xid=%d%s%s", s.conn, s.text, s.xid,
			when(s.seen, fmt.Sprintf(" seen=last-%d", s.back)), when(s.alone, " (alone)"))
	case stepBytes:
		return fmt.Sprintf("c%d bytes %s", s.conn, s.text)
	case stepHello:
		return fmt.Sprintf("hello %x: %s", s.body, s.text)
	case stepRestart:
		return "the server is killed, and starts again"
	case stepExpire:
		return fmt.Sprintf("c%d %s, and expire by %s", s.conn, s.text, [...]string{"disconnecting", "silence"}[s.mode])
	case stepProve:
		return fmt.Sprintf("c%d proves by SASL to be %s", s.conn, s.user)
	case stepQuiesce:
		return "quiesce"
	}
	return "?"
}

func when(on bool, text string) string {
	if on {
		return text
	}
	return ""
}

// at returns the step with an index in readable form.
func (s *script) at(i int) string {
	if i == len(s.steps) {
		return "the end"
	}
	return s.steps[i].String()
}

// print writes the steps of keep, all if nil, numbered.
func (s *script) print(b *strings.Builder, keep []int) {
	for i := range s.steps {
		if keep == nil || contains(keep, i) {
			fmt.Fprintf(b, "%5d  %s\n", i, s.steps[i].String())
		}
	}
}

func contains(sorted []int, n int) bool {
	for _, k := range sorted {
		if k == n {
			return true
		}
	}
	return false
}

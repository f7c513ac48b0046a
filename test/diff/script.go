//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// stepKind is what a step does.
type stepKind int

const (
	stepConnect stepKind = iota // new session on a new connection
	stepResume                  // known session on a new connection
	stepDrop                    // close a connection silently
	stepRequest                 // one request
	stepBytes                   // raw bytes, then wait for a reply or the end
	stepExpire                  // let a new session with an ephemeral expire
	stepProve                   // prove a name by SASL
	stepQuiesce                 // wait until the server changes nothing any more
)

// resumeMode is how a session is taken up again.
type resumeMode int

const (
	resumeGood        resumeMode = iota
	resumeBadPassword            // one byte wrong
	resumeNoPassword             // zero bytes long
	resumeAhead                  // claims to have seen a zxid that is yet to come
	resumeUnknown                // an id that was never given out
)

// A step is one line of a script. Which fields count follows from the kind.
type step struct {
	kind stepKind
	conn int // connection slot

	// connect, resume
	timeoutMs  int32
	noReadOnly bool // leave out the byte, as old clients do
	mode       resumeMode
	session    int // resume: index of the step that made it

	certificate string // connect: with TLS, the one that the script has by this name
	user        string // prove: the one who knows saslPassword

	// request, bytes
	op    zk.Op
	xid   zk.Xid
	body  []byte // without header; bytes: all of it
	text  string // for people
	alone bool   // not pipelined with its neighbours
	ends  bool   // alone, and the server has to close the connection
	seen  bool   // setWatches: the first 8 bytes become the zxid last seen less back
	back  int64
}

// A script is what one seed means.
type script struct {
	seed  uint64
	steps []step
	shows map[string]*tls.Config // by the certificate of a step

	ensemble bool // it is for a server of an ensemble
}

// String is the step as a person reads it.
func (s *step) String() string {
	switch s.kind {
	case stepConnect:
		return fmt.Sprintf("c%d connect timeout=%d%s%s", s.conn, s.timeoutMs, when(s.noReadOnly, " no-read-only-byte"),
			when(s.certificate != "", " with the certificate of "+s.certificate))
	case stepResume:
		mode := [...]string{"", " bad-password", " no-password", " zxid-ahead", " unknown-session"}[s.mode]
		return fmt.Sprintf("c%d resume s%d timeout=%d%s%s", s.conn, s.session, s.timeoutMs, mode,
			when(s.noReadOnly, " no-read-only-byte"))
	case stepDrop:
		return fmt.Sprintf("c%d drop", s.conn)
	case stepRequest:
		return fmt.Sprintf("c%d %s xid=%d%s%s", s.conn, s.text, s.xid,
			when(s.seen, fmt.Sprintf(" seen=last-%d", s.back)), when(s.alone, " (alone)"))
	case stepBytes:
		return fmt.Sprintf("c%d bytes %s", s.conn, s.text)
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

// at is the step of an index as a person reads it.
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

package peerwire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

var rewrite = flag.Bool("rewrite", false, "write the descriptions of testdata again")

// TestTheBytesOfApacheAreReadAndWritten runs the vectors of testdata, recorded
// between servers of Apache ZooKeeper. Each vector is a line with the sender
// and the bytes in hex, and a line with what is decoded from them. Encoding
// that again must give the same bytes.
func TestTheBytesOfApacheAreReadAndWritten(t *testing.T) {
	for _, name := range []string{"testdata/quorum-port.txt", "testdata/election-port.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		vectors := 0
		for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
			if strings.HasPrefix(line, "    ") {
				continue
			}
			out.WriteString(line + "\n")
			if kind, digits, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
				vectors++
				fmt.Fprintf(&out, "    %s\n", readVector(t, kind, unhex(t, digits)))
			}
		}
		if vectors < 8 {
			t.Errorf("%s has %d vectors", name, vectors)
		}
		if *rewrite {
			if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if out.String() != string(text) {
			t.Errorf("%s differs; -rewrite writes it again. Got:\n%s", name, out.String())
		}
	}
}

// readVector decodes b, checks that encoding gives the same bytes, and describes the result.
func readVector(t *testing.T, kind string, b []byte) string {
	t.Helper()
	var again []byte
	var text string
	switch kind {
	case "leader", "learner":
		m, err := DecodeMessage(b, DataBytesMax, kind == "leader")
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		again, text = AppendMessage(nil, &m, kind == "leader"), describe(&m)
	case "initial":
		in, err := DecodeInitial(b)
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		if again, err = AppendInitial(nil, in); err != nil {
			t.Fatal(err)
		}
		text = fmt.Sprintf("server %d at %v", in.Server, in.Addresses)
	case "notification":
		n, err := DecodeNotification(b)
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		again = AppendNotification(nil, &n)[4:]
		text = fmt.Sprintf("%v %q", n, n.Config)
	default:
		t.Fatalf("unknown vector %q", kind)
	}
	if !bytes.Equal(again, b) {
		t.Errorf("%s %s\n read %x\nwrote %x", kind, text, b, again)
	}
	return text
}

// describe prints what a message carries.
func describe(m *zab.Message) string {
	text := fmt.Sprintf("%v zxid=%v", m.Kind, m.Zxid)
	switch m.Kind {
	case zab.KindRequest:
		r := m.Request
		text += fmt.Sprintf(" session=%v xid=%d %v body=%s auth=%q", r.Session, r.Xid, r.Op, hex.EncodeToString(r.Body), r.Identities)
	case zab.KindProposal, zab.KindInform:
		text += fmt.Sprintf(" txn of %d bytes", len(m.Payload))
	case zab.KindNewLeader:
		text += fmt.Sprintf(" config=%q", m.Payload)
	case zab.KindPing:
		text += fmt.Sprintf(" touches=%v", m.Touches)
	case zab.KindRevalidate:
		text += fmt.Sprintf(" session=%v timeout=%d valid=%v", m.Session, m.TimeoutMs, m.Valid)
	case zab.KindCommitAndActivate:
		text += fmt.Sprintf(" leader=%d", m.Leader)
	case zab.KindInformAndActivate:
		text += fmt.Sprintf(" leader=%d txn of %d bytes", m.Leader, len(m.Payload))
	case zab.KindFollowerInfo, zab.KindObserverInfo:
		text += fmt.Sprintf(" server=%d config=%#x", m.Hello.Server, m.Hello.ConfigVersion)
	case zab.KindAckEpoch:
		text += fmt.Sprintf(" epoch=%d", m.Epoch)
	}
	return text
}

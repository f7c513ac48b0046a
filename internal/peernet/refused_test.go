package peernet

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
)

// TestStrangersDoNotFillTheLog of a server, whichever of its ports they reach.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	const number = 7
	same, err := appendInitial(peerwire.Initial{Server: number, Addresses: []peerwire.Address{{Host: "127.0.0.1", Port: 1}}})
	must(t, err)
	tooLong := append(make([]byte, 12), 0x7f, 0xff, 0xff, 0xff) // kind, zxid, length of the data
	for name, hello := range map[string][]byte{"quorum": tooLong, "election": same} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			var log bytes.Buffer
			l, logger := listen(t, "127.0.0.1:0"), slog.New(slog.NewTextHandler(&log, nil))
			var end func()
			if name == "quorum" {
				end = NewLinks(LinksOptions{Listener: l, Handler: &server{t: t}, Logger: logger}).Shutdown
			} else {
				v, err := NewVotes(VotesOptions{ID: number, Listener: l, Logger: logger})
				must(t, err)
				end = v.Close
			}
			for range 50 {
				socket, err := net.Dial("tcp", l.Addr().String())
				must(t, err)
				must(t, socket.SetDeadline(time.Now().Add(patience)))
				_, err = socket.Write(hello)
				must(t, err)
				_, _ = io.Copy(io.Discard, socket) // until it is closed
				socket.Close()
			}
			end()
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("50 strangers have left %d lines:\n%.500s", n, log.String())
			}
		})
	}
}

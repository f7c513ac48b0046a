package admin

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
)

// A connection is closed with its session, which lasts for its timeout after the last reply; one without a
// session is closed when its handshake takes too long.
func TestDumpSaysWhenSilentConnectionsAreClosed(t *testing.T) {
	remote := netip.MustParseAddrPort("127.0.0.1:9")
	var b strings.Builder
	dumpConns(&b, []server.Conn{
		{Remote: remote, Session: 1, TimeoutMs: 6000, Responded: 2 * time.Second, Since: time.Minute},
		{Remote: remote, Session: 2, TimeoutMs: 30000, Responded: -1, Since: 20 * time.Second},
		{Remote: remote, Since: 500 * time.Millisecond},
		{Remote: remote, Session: 3, TimeoutMs: 6000, Responded: 2*time.Second + 1, Since: time.Minute},
	}, time.Date(2026, 11, 30, 17, 0, 0, 0, time.Local), 10*time.Second)
	zone, _ := time.Date(2026, 11, 30, 17, 0, 0, 0, time.Local).Zone()
	want := strings.ReplaceAll(`Connections dump:
Connections Sets (2)/(4):
2 expire at Mon Nov 30 17:00:04 ZONE 2026:
	ip: /127.0.0.1:9 sessionId: 0x1
	ip: /127.0.0.1:9 sessionId: 0x3
2 expire at Mon Nov 30 17:00:10 ZONE 2026:
	ip: /127.0.0.1:9 sessionId: 0x2
	ip: /127.0.0.1:9 sessionId: 0x0
`, "ZONE", zone)
	if b.String() != want {
		t.Errorf("got:\n%swant:\n%s", b.String(), want)
	}
}

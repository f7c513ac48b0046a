//go:build linux && interop

package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/servers"
)

// TestLargeDirectoryCompletes: among 10,001 children the matching one is found if the
// server supports pages. Apache's does not: the shell says so, and a session on which it
// tried continues without further messages.
func TestLargeDirectoryCompletes(t *testing.T) {
	binary, err := servers.Binary(t.Context())
	must(t, err)
	for _, kind := range []servers.Kind{servers.Conclave(), servers.Apache("3.9.5")} {
		t.Run(kind.Name(), func(t *testing.T) {
			must(t, kind.Install(t.Context()))
			server, err := servers.Start(t.Context(), kind, servers.Options{})
			must(t, err)
			t.Cleanup(func() { _ = server.Kill() })
			c, err := client.Dial(awaittest.Within(t), server.Addr, client.Options{})
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			ops := []client.Operation{client.CreateOp("/big", nil, client.CreateOptions{}), client.CreateOp("/big/zebra", []byte("striped"), client.CreateOptions{})}
			for i := range 10_000 {
				ops = append(ops, client.CreateOp(fmt.Sprintf("/big/child-%05d", i), nil, client.CreateOptions{}))
			}
			for at := 0; at < len(ops); at += 1000 {
				_, err := c.Multi(t.Context(), ops[at:min(at+1000, len(ops))]...)
				must(t, err)
			}
			s := newScreen(t)
			prompt := regexp.QuoteMeta(server.Addr) + ` /> ?`
			s.types("clear; XDG_STATE_HOME="+t.TempDir()+" "+binary+" sh -server "+server.Addr, "Enter")
			s.await("it is connected", `(?m)^connected: help .*\n`+prompt)
			s.types("get /big/z", "Tab")
			if kind.Name() == "conclave" {
				s.await("the one that fits is found", `(?m)^`+prompt+`get /big/zebra$`)
				s.types("", "C-u")
				s.types("get /big/", "Tab")
				s.await("some are offered, and that there are others is said", `(?s)the first 40 of 10001 that fit|10001 children, 10000 of which were looked at.*get /big/`)
				s.await("nothing is written that others might not have", `(?m)^`+prompt+`get /big/$`)
				s.types("", "C-c")
				s.types("", "Enter")
				s.types("get /big/zebra", "Enter")
			} else {
				s.await("it is said that nothing was looked at", `10001 children, 0 of which were looked at(.|\n)*`+prompt+`get /big/z`)
				s.types("ebra", "Enter")
			}
			shown := s.await("the session lives", `(?m)^striped$`)
			if strings.Contains(shown, "lost") || strings.Contains(shown, "panic") {
				t.Error(shown)
			}
		})
	}
}

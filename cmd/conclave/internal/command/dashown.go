package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
)

// processSource shows the servers of this process, and the other servers of their ensemble.
func processSource(servers []string, dial dialFunc, token func() string, log dashLog) *dashSource {
	list := strings.Join(servers, ",")
	o := &overseer{store: cli.Store{URL: "zk://" + list, Servers: list}, clients: true, named: servers, elections: dashElections}
	o.asker, o.admin, o.timeout = asker{dial}, adminAccess{8080, token}, dashTimeout
	o.open = func(ctx context.Context, servers string) (*opened, error) {
		f := storeFlags{store: "zk://" + servers}
		return f.look(ctx)
	}
	source := newDashSource(o, list, client.Options{ReplyBytesMax: replyBytesMax})
	source.log = log
	return source
}

// ownDashboard shows a server of this process. The server answers every four-letter word to
// its own dashboard, whatever its settings allow to others. token returns what the admin ports of the
// other servers are shown.
func ownDashboard(s *server.Server, commands admin.Commands, token func() string) *dashSource {
	own := "127.0.0.1:0" // without a port for clients without TLS there is no session
	if addr, ok := s.Addr().(*net.TCPAddr); ok {
		own = addr.String()
		if addr.IP.IsUnspecified() {
			own = fmt.Sprintf("127.0.0.1:%d", addr.Port)
		}
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != own {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
		asks, answers := net.Pipe()
		go func() {
			defer answers.Close()
			name := make([]byte, 4)
			if _, err := io.ReadFull(answers, name); err == nil {
				answer, release := s.Report(string(name), func() string { return commands.Answer(s, string(name)) })
				defer release()
				_, _ = io.Copy(struct{ io.Writer }{answers}, struct{ io.Reader }{strings.NewReader(answer)}) // the caller may have gone
			}
		}()
		return asks, nil
	}
	return processSource([]string{own}, dial, token, func() *server.Server { return s })
}

// dashboard serves the dashboard of a dev ensemble; it allows all changes.
func (v *dev) dashboard(ctx context.Context, e *inprocess.Ensemble) (url string, end func(), err error) {
	first := func() *server.Server {
		for id := 1; id <= e.Size(); id++ {
			if s := e.Server(id); s != nil {
				return s
			}
		}
		return nil
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return serveDashboard(ctx, v.http, processSource(e.Addrs(), nil, nil, first), true, logger)
}

package command

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/server"
)

// securePorts has the sources of keys and certificates of a server; nil for ports without
// TLS.
type securePorts struct{ clients, peers, admin, metrics *secure.Source }

// openTLS reads the TLS files for the ports that use TLS.
func openTLS(config *zoocfg.Config, logger *slog.Logger) (*securePorts, error) {
	p := &securePorts{}
	var err error
	if config.ClientTLS.Serves {
		if p.clients, err = secure.Open(zoocfg.ClientTLS, config.ClientTLS.Settings, true, logger); err != nil {
			return nil, cli.Usage(configHint, "TLS for clients: %w", err)
		}
	}
	if peers := &config.PeerTLS; config.Server.Ensemble != nil && (peers.Serves || peers.PlainToo) {
		if p.peers, err = secure.Open(zoocfg.PeerTLS, peers.Settings, true, logger); err != nil {
			return nil, cli.Usage(configHint, "TLS between servers: %w", err)
		}
		if line := config.Server.Line(); line != nil {
			var hosts []string
			for _, address := range line.Quorum {
				hosts = append(hosts, address.Host)
			}
			p.peers.TellDoubts(hosts)
		}
	}
	if config.Admin.TLS.Serves {
		if p.admin, err = secure.Open(zoocfg.PeerTLS, config.Admin.TLS.Settings, true, logger); err != nil {
			return nil, cli.Usage(configHint, "TLS of the admin port: %w", err)
		}
	}
	if m := &config.Metrics; m.Serves && m.TLSPort != zoocfg.NoPort {
		if p.metrics, err = secure.Open(zoocfg.MetricsTLS, m.TLS, true, logger); err != nil {
			return nil, cli.Usage(configHint, "TLS of the port for metrics: %w", err)
		}
	}
	return p, nil
}

// secure makes a server's ports, and the connections that it opens, use TLS.
func (p *securePorts) secure(cfg *server.Config, config *zoocfg.Config) {
	if clients := p.clients; clients != nil {
		plainToo := config.ClientTLS.PlainToo
		cfg.SecureClients = func(l net.Listener, secure bool) net.Listener {
			if secure || plainToo {
				return clients.Listener(l, !secure)
			}
			return l
		}
	}
	if peers := p.peers; peers != nil {
		plainToo, membersOnly := config.PeerTLS.PlainToo, config.PeerTLS.MembersOnly
		cfg.PeersAreMembers = membersOnly
		cfg.SecurePeers = func(l net.Listener, hosts func() []string) net.Listener {
			if membersOnly {
				return peers.PeerListener(l, plainToo, hosts)
			}
			return peers.Listener(l, plainToo)
		}
		if config.PeerTLS.Serves {
			cfg.PeerDial = peers.Dial
		}
	}
}

// watch reads files again when they change. The returned function ends that.
func (p *securePorts) watch(ctx context.Context) func() {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for _, source := range []*secure.Source{p.clients, p.peers, p.admin, p.metrics} {
		if source != nil {
			watching.Go(func() { source.Watch(ctx) })
		}
	}
	return func() {
		stop()
		watching.Wait()
	}
}

// addresses says on which addresses a server listens for clients, with TLS or without.
func addresses(config *zoocfg.Config) string {
	var all []string
	if addr := config.Server.ClientAddr; addr != "" && config.ClientTLS.PlainToo {
		all = append(all, addr+" (plain and TLS)")
	} else if addr != "" {
		all = append(all, addr)
	}
	if addr := config.Server.SecureAddr; addr != "" {
		all = append(all, addr+" (TLS)")
	}
	return strings.Join(all, " and ")
}

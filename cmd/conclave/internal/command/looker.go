package command

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
)

// looked is the state of one server of a new configuration, as JSON.
type looked struct {
	ID      int64  `json:"id"`
	Role    string `json:"role"`             // in the new configuration
	Client  string `json:"client,omitempty"` // where it was asked
	Mode    string `json:"mode,omitempty"`   // its current mode
	Zxid    string `json:"zxid,omitempty"`
	InSync  bool   `json:"inSync"`
	Why     string `json:"why,omitempty"`     // why it is not in sync
	InForce bool   `json:"inForce,omitempty"` // the new configuration is in force there
}

// inSync returns the ids of the servers that are in sync.
func inSync(all []looked) quorum.IDs {
	var ids quorum.IDs
	for _, l := range all {
		if l.InSync {
			ids.Add(quorum.ID(l.ID))
		}
	}
	return ids
}

// looker asks the servers of a configuration. It may be used by several goroutines.
type looker struct {
	options client.Options
	named   []string // the servers that the user has named
	asked   string   // the server in use
	timeout time.Duration
	current *ensemble.Config
}

// lookEvery is the time between two looks at one server.
const lookEvery = 200 * time.Millisecond

// all asks every server of the next configuration until it is in sync or the timeout is
// over.
func (l *looker) all(ctx context.Context, s *session, next *ensemble.Config) ([]looked, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := s.Sync(ctx, "/"); err != nil {
		return nil, err
	}
	here := l.asker().ask(ctx, s.Server())
	last, err := strconv.ParseUint(here.Zxid, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its zxid: %s", s.Server(), here.Error)
	}
	found, at := make([]looked, len(next.Members)), l.addresses(next)
	l.each(len(found), func(i int) {
		m := &next.Members[i]
		one := looked{ID: int64(m.ID), Role: roleOf(m), Client: at[i], Why: "its client port is not told"}
		for seen := false; one.Client != ""; seen = true {
			now := one
			now.Why = l.look(ctx, &now, last)
			if !seen || now.Why == "" || !isOver(ctx) { // a look that ran out of time says less than the one before
				one = now
			}
			if one.Why == "" || !l.pause(ctx) {
				break
			}
		}
		one.InSync = one.Why == ""
		found[i] = one
	})
	return found, nil
}

// each calls f for the numbers below n, a limited number of them at the same time.
func (l *looker) each(n int, f func(i int)) {
	const atOnce = 16
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// isOver reports whether a context has ended or is about to: a connection with the same
// deadline may end before it.
func isOver(ctx context.Context) bool {
	at, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(at)
}

// pause waits until the next look, and reports whether there is time for it.
func (l *looker) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookEvery):
		return true
	}
}

func (l *looker) asker() asker { return asker{l.options.Dialer} }

// addresses returns the addresses of the servers of a configuration for clients; "" if
// unknown. Their lines do not show TLS addresses: then it is the server that the user has
// named on the same host.
func (l *looker) addresses(config *ensemble.Config) []string {
	all := make([]string, len(config.Members))
	for i, m := range members(config.Text(), l.asked, "") {
		all[i] = m.client
		if l.options.Dialer != nil {
			all[i] = l.namedAt(&config.Members[i])
		}
	}
	return all
}

func (l *looker) namedAt(m *ensemble.Member) string {
	found := ""
	for _, server := range l.named {
		host, _, err := net.SplitHostPort(server)
		if err != nil || host != m.Quorum[0].Host && host != m.Client.Host {
			continue
		}
		if found != "" {
			return "" // two servers on one host cannot be distinguished
		}
		found = server
	}
	return found
}

// look asks one server once, and returns why it is not in sync; "" if it is.
func (l *looker) look(ctx context.Context, one *looked, last uint64) string {
	now := l.asker().ask(ctx, one.Client)
	one.Mode, one.Zxid = now.Mode, now.Zxid
	zxid, err := strconv.ParseUint(now.Zxid, 0, 64)
	switch {
	case now.Error != "":
		return now.Error
	case now.ID != "" && now.ID != strconv.FormatInt(one.ID, 10):
		return "it is server " + now.ID
	case now.Mode != "leader" && now.Mode != "follower" && now.Mode != "observer":
		return "it follows no leader"
	case err != nil:
		return "it does not report its zxid"
	case now.diskFull():
		return "its disk is full"
	}
	config, why := l.config(ctx, one.Client)
	switch {
	case config == nil:
		return why
	case config.Version != l.current.Version || !config.Equal(l.current):
		return "it has another configuration, of version " + strconv.FormatUint(uint64(config.Version), 16)
	case zxid < last:
		return "it is behind"
	}
	return ""
}

// config reads the configuration that is in force on a server; nil with the reason if it
// cannot.
func (l *looker) config(ctx context.Context, server string) (*ensemble.Config, string) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	c, err := client.Dial(ctx, server, l.options)
	if err != nil {
		return nil, "no session: " + err.Error()
	}
	defer func() { _ = c.Close() }() // an error: the session expires
	text, _, err := c.GetConfig(ctx)
	if err != nil {
		return nil, err.Error()
	}
	config, err := ensemble.Parse(string(text))
	if err != nil {
		return nil, "it has no configuration of an ensemble"
	}
	return config, ""
}

// await waits until the servers of a configuration have it in force. It returns the version
// under which one of them has (0 for none), and the ids of those that have not.
func (l *looker) await(ctx context.Context, next *ensemble.Config, servers []looked) (version int64, late []string) {
	versions := make([]int64, len(servers))
	l.each(len(servers), func(i int) {
		for servers[i].Client != "" {
			config, _ := l.config(ctx, servers[i].Client)
			if config != nil && config.Version > l.current.Version && config.Equal(next) {
				versions[i], servers[i].InForce = config.Version, true
				return
			}
			if !l.pause(ctx) {
				return
			}
		}
	})
	for i, one := range servers {
		if version = max(version, versions[i]); !one.InForce {
			late = append(late, strconv.FormatInt(one.ID, 10))
		}
	}
	return version, late
}

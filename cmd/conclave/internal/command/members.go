package command

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
)

// member is a server of an ensemble, as in a configuration.
type member struct {
	id     string
	client string // its address for clients; "" if unknown
}

// members finds the servers in the lines of a configuration. A client address without a
// specific host is on the host of the server's first quorum address. If a line has no
// client port, the server's own file has it: it is assumed to be the port of the server
// asked, unless several servers share that host.
func members(text, asked, port string) []member {
	askedHost, askedPort, err := net.SplitHostPort(asked)
	if err != nil {
		return nil
	}
	if port == "" || port == "-1" {
		port = askedPort
	}
	lines := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "server.") {
			lines += line
		}
	}
	config, err := ensemble.Parse(lines)
	if err != nil {
		return nil
	}
	hosts := map[string]int{}
	for _, m := range config.Members {
		hosts[m.Quorum[0].Host]++
	}
	var found []member
	for _, m := range config.Members {
		host, clientPort := m.Client.Host, strconv.Itoa(int(m.Client.Port))
		if host == "" || m.Client.Wildcard() {
			host = m.Quorum[0].Host
		}
		one := member{id: strconv.FormatInt(int64(m.ID), 10)}
		switch {
		case m.Client.Port != 0:
			one.client = net.JoinHostPort(reachable(host, askedHost), clientPort)
		case hosts[host] == 1:
			one.client = net.JoinHostPort(reachable(host, askedHost), port)
		}
		found = append(found, one)
	}
	return found
}

// reachable returns the host under which a server was asked if its configuration has a
// local name: its localhost is not ours.
func reachable(host, asked string) string {
	if loopback(host) && !loopback(asked) {
		return asked
	}
	return host
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// askOthers finds the servers that were not asked, asks them too, and returns all in the
// order of their numbers. lost names the servers whose address for clients is unknown.
func askOthers(ctx context.Context, all []standing, timeout time.Duration) (asked []standing, lost string) {
	found := membership(ctx, all, timeout)
	known := map[string]bool{}
	for _, s := range all {
		known[s.Server] = true
		if s.ID != "" {
			known["id "+s.ID] = true
		}
	}
	var others, ids, silent []string
	for _, m := range found {
		switch {
		case known["id "+m.id] || known[m.client]:
		case m.client == "":
			silent = append(silent, m.id)
		default:
			others, ids = append(others, m.client), append(ids, m.id)
		}
	}
	for i, s := range askAll(ctx, asker{}, others, timeout) {
		if s.ID == "" {
			s.ID = ids[i]
		}
		all = append(all, s)
	}
	for i := range all {
		for _, m := range found {
			if all[i].ID == "" && all[i].Server == m.client {
				all[i].ID = m.id
			}
		}
	}
	sortBy(all, func(a, b standing) int { return number(a.ID) - number(b.ID) })
	switch n := len(found) - len(all); {
	case len(silent) == 0 || n <= 0:
		return all, ""
	case slices.ContainsFunc(all, func(s standing) bool { return s.ID == "" }):
		return all, strconv.Itoa(n) + " of the servers " + strings.Join(silent, ", ") // which of them were asked is unknown
	}
	return all, serversText(silent)
}

// serversText lists servers by their ids; "" for none.
func serversText(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return "server " + strings.Join(ids, ", ")
}

// number is the sort key of an id; servers without one come last.
func number(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil {
		return 1 << 30
	}
	return n
}

// membership returns the ensemble as the servers that were asked report it or, if none
// does, from the znode of the configuration.
func membership(ctx context.Context, all []standing, timeout time.Duration) []member {
	for _, s := range all {
		if len(s.membership) > 0 {
			return s.membership
		}
	}
	for _, s := range all {
		if s.Error != "" || s.Mode == "standalone" || s.ID != "" {
			continue
		}
		if text := readConfig(ctx, s.Server, timeout); text != "" {
			return members(text, s.Server, "")
		}
	}
	return nil
}

// readConfig reads the znode of the configuration; "" if that is impossible.
func readConfig(ctx context.Context, server string, timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := client.Dial(ctx, server, client.Options{})
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }() // an error: the session expires
	data, _, err := c.GetConfig(ctx)
	if err != nil {
		return ""
	}
	return string(data)
}

package zoocfg

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// opened is a port that this server opens, and the key that sets it.
type opened struct {
	key   string
	at    ensemble.Address // empty host: all addresses
	votes bool             // it is the election port of a server line
}

// ports refuses ports that cannot be open at the same time, as far as their addresses show:
// the start would fail when the second one is opened.
func (r *reader) ports() {
	var all []opened
	add := func(key, host string, port int) {
		if port > 0 {
			all = append(all, opened{key: key, at: ensemble.Address{Host: strings.Trim(host, "[]"), Port: uint16(port)}})
		}
	}
	c := &r.out.Server
	if c.Ensemble != nil && c.Line() != nil {
		own := serverKey(c.ID)
		addPeers := func(key string, line []ensemble.Address) {
			for _, address := range c.PeerAddresses(line) {
				host, port, _ := net.SplitHostPort(address)
				number, _ := strconv.Atoi(port)
				add(key, host, number)
			}
		}
		addPeers(own, c.Line().Quorum)
		first := len(all)
		addPeers(own, c.Line().Election)
		for i := range all[first:] {
			all[first+i].votes = true
		}
		if c.ObserverPort > 0 && !c.Line().Observer {
			addPeers("observerMasterPort", c.ObserverAddresses(c.Line()))
		}
	}
	add("clientPort", r.clientHost, r.clientPort)
	add("secureClientPort", r.secureHost, r.securePort)
	if a := &r.out.Admin; a.Serves {
		add("admin.serverPort", a.Host, a.Port)
	}
	if m := &r.out.Metrics; m.Serves {
		add("metricsProvider.httpPort", m.Host, m.Port)
		if !m.BothOnOne() {
			add("metricsProvider.httpsPort", m.Host, m.TLSPort)
		}
	}
	if host, port, err := net.SplitHostPort(r.out.HTTP.Address); err == nil {
		number, _ := strconv.Atoi(port) // 0 is a free port
		add("conclave.httpAddress", host, number)
	}
	for i, later := range all {
		for _, first := range all[:i] {
			if (first.key != later.key || first.votes != later.votes) && first.meets(later) {
				r.missing(later.key, fmt.Sprintf("port %d is that of %s, too", later.at.Port, first.key))
			}
		}
	}
}

func (o opened) meets(other opened) bool {
	a, b := o.at, other.at
	return a.Port == b.Port && (a.Host == "" || b.Host == "" || a.Wildcard() || b.Wildcard() || a.Same(b))
}

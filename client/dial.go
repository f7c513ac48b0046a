package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/conclave-project/conclave/internal/clientsession"
)

const (
	resolveWait = 5 * time.Second // for all names of a round
	// resolveGrace is how long to wait for other names once one server is known, so that a
	// name server that does not answer delays nobody.
	resolveGrace = time.Second
	probeWait    = 2 * time.Second
)

// resolve looks the servers up and passes the addresses to the machine. They are always
// those of the newest list, because SetServers may be called during a look-up.
func (c *Client) resolve() {
	for {
		c.mu.Lock()
		list := c.servers
		c.mu.Unlock()
		found := c.lookUp(list)
		if c.tellResolved(list, found) {
			return
		}
	}
}

// tellResolved passes the addresses to the machine, unless the list has changed.
func (c *Client) tellResolved(list []string, found [][]string) bool {
	event := clientsession.Event{Kind: clientsession.Resolved, Found: true}
	names := map[string]string{}
	for i, server := range list {
		host, _, _ := net.SplitHostPort(server) // parseServers has checked it
		event.Found = event.Found && found[i] != nil
		for _, address := range found[i] {
			if _, known := names[address]; !known {
				names[address] = host
				event.Addresses = append(event.Addresses, address)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(list, c.servers) {
		return false
	}
	c.names = names
	c.step(event)
	return true
}

// lookUp returns the addresses of each server; nil for a name that cannot be looked up. It
// looks up all names at the same time.
func (c *Client) lookUp(list []string) [][]string {
	ctx, cancel := context.WithTimeout(c.ctx, resolveWait)
	defer cancel()
	type answer struct {
		at        int
		addresses []string
	}
	answers := make(chan answer, len(list))
	for i, server := range list {
		c.group.Go(func() { answers <- answer{i, c.lookUpOne(ctx, server)} })
	}
	found := make([][]string, len(list))
	var enough <-chan time.Time
	for range list {
		select {
		case one := <-answers:
			found[one.at] = one.addresses
			if enough == nil && one.addresses != nil {
				enough = time.After(resolveGrace)
			}
		case <-enough:
			return found
		}
	}
	return found
}

// lookUpOne returns the addresses of one server. If there are none, the reason is kept for
// calls that wait for a connection.
func (c *Client) lookUpOne(ctx context.Context, server string) []string {
	host, port, _ := net.SplitHostPort(server)
	if c.options.Dialer != nil || net.ParseIP(host) != nil {
		return []string{server}
	}
	known, err := c.book.Addresses(ctx, host)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // the look-up is still wanted
			c.mu.Lock()
			c.cause = err
			c.mu.Unlock()
		}
		return nil
	}
	found := make([]string, len(known))
	for i, ip := range known {
		found[i] = net.JoinHostPort(ip, port)
	}
	return found
}

// dial opens a connection to an address, with TLS if it is configured.
func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	dial := c.options.Dialer
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	socket, err := dial(ctx, "tcp", address)
	if err != nil || c.options.TLS == nil {
		return socket, err
	}
	config := c.options.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName = c.nameOf(address)
	}
	secure := tls.Client(socket, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return secure, nil
}

// nameOf returns the name in the list of the server at address.
func (c *Client) nameOf(address string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.names[address]; ok {
		return name
	}
	host, _, _ := net.SplitHostPort(address) // the list has changed since
	return host
}

// probe finds out, with a four-letter word, whether a server is read-write.
func (c *Client) probe(address string) {
	event := clientsession.Event{Kind: clientsession.Probed, Addresses: []string{address}}
	event.Found = c.isWritable(address)
	c.post(event)
}

func (c *Client) isWritable(address string) bool {
	ctx, cancel := context.WithTimeout(c.ctx, probeWait)
	defer cancel()
	socket, err := c.dial(ctx, address)
	if err != nil {
		return false
	}
	defer func() { _ = socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(socket, "isro"); err != nil {
		return false
	}
	answer, err := io.ReadAll(io.LimitReader(socket, 8))
	return err == nil && string(answer) == "rw"
}

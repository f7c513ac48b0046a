package client

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/clientsession"
)

const (
	resolveWait = 5 * time.Second // for all names of a round
	probeWait   = 2 * time.Second
)

// resolve looks the servers up and tells the machine. Names that cannot be
// looked up are left out, unless none can.
func (c *Client) resolve(servers []string) {
	ctx, cancel := context.WithTimeout(c.ctx, resolveWait)
	defer cancel()
	event := clientsession.Event{Kind: clientsession.Resolved}
	names := map[string]string{}
	for _, server := range servers {
		host, port, _ := net.SplitHostPort(server) // parseServers made it
		if c.options.Dialer != nil || net.ParseIP(host) != nil {
			names[server] = host
			event.Addresses = append(event.Addresses, server)
			continue
		}
		found, err := c.options.Resolver.LookupHost(ctx, host)
		if err != nil {
			event.Cause = err
			continue
		}
		for _, ip := range found {
			address := net.JoinHostPort(ip, port)
			if _, known := names[address]; !known {
				names[address] = host
				event.Addresses = append(event.Addresses, address)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
	if event.Cause != nil {
		c.cause = event.Cause
	}
	c.step(event, nil)
}

// dial opens a connection to an address, with TLS if that is asked for.
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

// nameOf returns the name by which the server at address is listed.
func (c *Client) nameOf(address string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.names[address]; ok {
		return name
	}
	host, _, _ := net.SplitHostPort(address) // the list has changed meanwhile
	return host
}

// probe asks a server by four-letter word whether it is read-write.
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

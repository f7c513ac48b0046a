package consul

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// Open returns a backend on the agent of a URL, and what closes it:
//
//	consul://127.0.0.1:8500/services?lease-min=2s&lock-delay=5s&tls=true
//
// The path, with a slash behind it, becomes Options.Prefix. Token, TLS files,
// namespace and the like are those that the consul program takes from the
// environment: CONSUL_HTTP_TOKEN, CONSUL_HTTP_SSL, CONSUL_CACERT and so on. It
// connects when it is used.
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config := api.DefaultConfig()
	options, err := parse(address, config)
	if err != nil {
		return nil, nil, fmt.Errorf("consul: URL %q: %w; a good one is consul://127.0.0.1:8500", address, err)
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, nil, fmt.Errorf("consul: open %s: %w", address, err)
	}
	b := New(client, options)
	return b, b.Close, nil
}

// parse reads a URL into the configuration of a client.
func parse(address string, config *api.Config) (Options, error) {
	var options Options
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return options, err
	case u.Scheme != "consul":
		return options, errors.New("does not begin with consul://")
	case u.Hostname() == "" || u.Port() == "" || u.User != nil:
		return options, fmt.Errorf("has the agent %q, which is not host:port", u.Host)
	}
	config.Address = u.Host
	if path := strings.Trim(u.Path, "/"); path != "" {
		options.Prefix = path + "/"
	}
	for name, values := range u.Query() {
		var err error
		switch name {
		case "lease-min":
			options.LeaseMin, err = time.ParseDuration(values[0])
		case "lock-delay":
			options.LockDelay, err = time.ParseDuration(values[0])
		case "tls":
			if values[0] == "true" {
				config.Scheme = "https"
			}
		default:
			err = errors.New("is not known; there are lease-min, lock-delay and tls")
		}
		if err != nil {
			return options, fmt.Errorf("parameter %q %w", name, err)
		}
	}
	return options, nil
}

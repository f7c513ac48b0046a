package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// Defaults and limits of Options.
const (
	LeaseDefault     = 3 * time.Second
	LeaseMin         = 50 * time.Millisecond
	leaseMax         = time.Hour
	AlgorithmDefault = "raft"
)

// Member is a process that votes.
type Member struct {
	ID algo.ID
	// Addr is where the others reach it, host:port.
	Addr string
}

// Options of a Backend.
type Options struct {
	// ID says which of the members this process is.
	ID algo.ID
	// Members are all that vote, this process included, the same everywhere.
	Members []Member
	// Dir holds what this member must not forget. It is created if it does not exist, belongs to
	// one process at a time, and must never be copied. Required for raft; the other algorithms
	// store nothing.
	Dir string
	// Lease is how long a silent leader keeps others out, the same everywhere: members with
	// another one are refused. It may be changed by restarting one member after the other
	// (peers-P9). Default LeaseDefault.
	Lease time.Duration
	// Algorithm is raft, bully, ring or lowest. Default raft.
	Algorithm string
	// After is a token that all tokens of this group must exceed, the same everywhere. Set it to
	// the highest token of an older group whose elections this one continues. Default 0.
	After election.Token
	// TLS, if not nil, is used on both ends of each connection. It should ask
	// for certificates of clients (tls.RequireAndVerifyClientCert).
	TLS *tls.Config
	// Listener, if not nil, accepts the connections of the others; the default is to listen on
	// the member's own address. Close closes it.
	Listener net.Listener
	// Log is called with what happens to connections, by one goroutine. It may block: what
	// happens in the meantime is dropped. Nil logs nothing.
	Log func(text string)
}

// example is part of every error about a URL.
const example = "for example peers://a@10.0.0.1:7400,b@10.0.0.2:7400,c@10.0.0.3:7400?dir=/var/lib/billing, " +
	"where the first is this process"

// Open opens the backend that a URL names. The returned function ends it.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	options, err := ParseURL(text)
	if err != nil {
		return nil, nil, err
	}
	b, err := New(options)
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}

// ParseURL reads peers://ME@HOST:PORT,OTHER@HOST:PORT,...?dir=DIR. Further parameters are lease,
// algorithm, after, and tls-cert, tls-key, tls-ca: the names of PEM files, all three or none.
func ParseURL(text string) (Options, error) {
	rest, ok := strings.CutPrefix(text, "peers://")
	if !ok {
		return Options{}, fmt.Errorf("%q is no URL of peers; %s", text, example)
	}
	list, query, _ := strings.Cut(rest, "?")
	var o Options
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, "/"), ",") {
		id, addr, ok := strings.Cut(entry, "@")
		if _, _, err := net.SplitHostPort(addr); !ok || err != nil {
			return Options{}, fmt.Errorf("%q: the member %q is not ID@HOST:PORT; %s", text, entry, example)
		}
		o.Members = append(o.Members, Member{algo.ID(id), addr})
	}
	o.ID = o.Members[0].ID
	values, err := url.ParseQuery(query)
	if err != nil {
		return Options{}, fmt.Errorf("%q: %w; %s", text, err, example)
	}
	if err := o.setValues(values); err != nil {
		return Options{}, fmt.Errorf("%q: %w; %s", text, err, example)
	}
	return o, nil
}

func (o *Options) setValues(values url.Values) (err error) {
	var cert, key, ca string
	for name, value := range values {
		if len(value) != 1 || value[0] == "" {
			return fmt.Errorf("parameter %s has %d values, or an empty one", name, len(value))
		}
		switch one := value[0]; name {
		case "dir":
			o.Dir = one
		case "algorithm":
			o.Algorithm = one
		case "lease":
			if o.Lease, err = time.ParseDuration(one); err != nil || o.Lease == 0 {
				return fmt.Errorf("lease %q: not a time such as 3s", one)
			}
		case "after":
			after, err := strconv.ParseUint(one, 10, 63)
			if err != nil {
				return fmt.Errorf("after %q: not a token", one)
			}
			o.After = election.Token(after)
		case "tls-cert":
			cert = one
		case "tls-key":
			key = one
		case "tls-ca":
			ca = one
		default:
			return fmt.Errorf("unknown parameter %q", name)
		}
	}
	if cert+key+ca != "" {
		o.TLS, err = loadTLS(cert, key, ca)
	}
	return err
}

func loadTLS(cert, key, ca string) (*tls.Config, error) {
	if cert == "" || key == "" || ca == "" {
		return nil, errors.New("tls-cert, tls-key and tls-ca go together")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}, nil
}

// withDefaults fills in defaults and checks the options.
func (o Options) withDefaults() (Options, error) {
	if o.Lease == 0 {
		o.Lease = LeaseDefault
	}
	if o.Algorithm == "" {
		o.Algorithm = AlgorithmDefault
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Lease < LeaseMin || o.Lease > leaseMax || o.Lease%time.Millisecond != 0 {
		return o, fmt.Errorf("lease %v: must be whole milliseconds from %v to %v", o.Lease, LeaseMin, leaseMax)
	}
	if len(o.Members) == 0 || len(o.Members) > algo.MembersMax {
		return o, fmt.Errorf("%d members: must be 1 to %d", len(o.Members), algo.MembersMax)
	}
	o.Members = slices.Clone(o.Members)
	slices.SortFunc(o.Members, func(a, b Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i, m := range o.Members {
		if err := algo.ValidateID(m.ID); err != nil {
			return o, err
		}
		if i > 0 && m.ID == o.Members[i-1].ID {
			return o, fmt.Errorf("two members are called %q", m.ID)
		}
	}
	if err := checkMembers(o.ids()); err != nil {
		return o, err
	}
	if !slices.Contains(o.ids(), o.ID) {
		return o, fmt.Errorf("this process, %q, is not among the members %v", o.ID, o.ids())
	}
	if o.Dir == "" && o.Algorithm == AlgorithmDefault {
		return o, errors.New("no directory is given: a member that forgets its votes can elect two leaders; " +
			"name a directory of a local disk that is this member's alone (dir=...)")
	}
	if o.Dir != "" {
		o.Dir = filepath.Clean(o.Dir)
	}
	return o, nil
}

// ids returns the ids of all members, in order.
func (o Options) ids() []algo.ID {
	ids := make([]algo.ID, len(o.Members))
	for i, m := range o.Members {
		ids[i] = m.ID
	}
	return ids
}

func (o Options) addr(id algo.ID) string {
	for _, m := range o.Members {
		if m.ID == id {
			return m.Addr
		}
	}
	return ""
}

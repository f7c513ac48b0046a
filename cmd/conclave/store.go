package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// ballot is the flags of every command about an election.
type ballot struct {
	name  string
	store string
	auth  []string
}

func (b *ballot) add(c *cobra.Command) {
	c.Flags().StringVarP(&b.name, "election", "e", "", "name of the election, such as billing/nightly")
	c.Flags().StringVar(&b.store, "store", "", "zk://host:port[,host:port...][/chroot] or file:///dir (default $CONCLAVE_STORE, else a directory of this machine and user)")
	c.Flags().StringArrayVar(&b.auth, "auth", nil, "credential to show to servers, as digest:user:password; may be repeated")
	_ = c.MarkFlagRequired("election")
}

// open returns the backend and what ends it.
func (b *ballot) open() (election.Backend, func(), error) {
	if err := election.ValidateName(b.name); err != nil {
		return nil, nil, cli.Usage("--election takes a name such as billing/nightly", "%w", err)
	}
	text := b.store
	if text == "" {
		text = os.Getenv(cli.StoreVariable)
	}
	store := cli.Store{Kind: "file"}
	if text != "" {
		var err error
		if store, err = cli.ParseStore(text); err != nil {
			return nil, nil, err
		}
	}
	if store.Kind == "zk" {
		return b.openServers(store.Servers)
	}
	return openDir(store.Dir)
}

func (b *ballot) openServers(servers string) (election.Backend, func(), error) {
	var options client.Options
	for _, text := range b.auth {
		credential, err := cli.ParseAuth(text)
		if err != nil {
			return nil, nil, err
		}
		options.Auth = append(options.Auth, credential)
	}
	backend, err := zookeeper.New(servers, zookeeper.Options{Client: options})
	if err != nil {
		return nil, nil, cli.Usage("write --store zk://HOST:PORT", "%w", err)
	}
	// What was not given back when the process ends expires by itself.
	return backend, func() { _ = backend.Close() }, nil
}

func openDir(dir string) (election.Backend, func(), error) {
	if dir == "" {
		var err error
		if dir, err = file.DefaultDir(); err != nil {
			return nil, nil, cli.Failed(err, "or name a directory with --store file:///DIR")
		}
	}
	backend, err := file.New(dir)
	if err != nil {
		return nil, nil, cli.Failed(err, "name a directory of a local disk with --store file:///DIR, or servers with --store zk://HOST:PORT")
	}
	return backend, func() {}, nil
}

// candidate is the flags of the commands that want to lead.
type candidate struct {
	ballot
	id      string
	lease   time.Duration
	forever bool
	quiet   bool
}

func (v *candidate) add(c *cobra.Command) {
	v.ballot.add(c)
	c.Flags().StringVar(&v.id, "id", "", "name of this candidate (default host and process id)")
	c.Flags().DurationVar(&v.lease, "lease", election.LeaseDefault, "for how long a leader that is not heard of any more keeps others out")
	c.Flags().BoolVar(&v.forever, "forever", false, "campaign again after every leadership")
	c.Flags().BoolVarP(&v.quiet, "quiet", "q", false, "say nothing about the election on the standard error")
}

// elector makes the candidate. The returned function ends it.
func (v *candidate) elector(c *cobra.Command) (*election.Elector, func(), error) {
	backend, closeBackend, err := v.open()
	if err != nil {
		return nil, nil, err
	}
	news := newReporter(c.ErrOrStderr(), v.quiet, v.lease)
	elector, err := election.New(backend, v.name, election.Options{
		ID: v.id, Lease: v.lease, Forever: v.forever, OnEvent: news.event,
	})
	if err != nil {
		closeBackend()
		return nil, nil, cli.Usage("see --id and --lease", "%w", err)
	}
	return elector, func() { closeBackend(); news.close() }, nil
}

// view waits for the first view of an election.
func view(ctx context.Context, backend election.Backend, name string) (election.View, error) {
	for v, err := range backend.Observe(ctx, name) {
		if err != nil {
			return v, fmt.Errorf("look at election %q: %w", name, err)
		}
		return v, nil
	}
	return election.View{}, fmt.Errorf("look at election %q: %w", name, context.Cause(ctx))
}

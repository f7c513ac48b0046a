package command

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/login"
	"github.com/spf13/cobra"
)

// saslFlag names the JAAS file with which this client proves its identity to ZooKeeper's
// servers.
type saslFlag struct {
	jaas fileFlag
}

func (f *saslFlag) add(c *cobra.Command) {
	f.jaas.add(c, "jaas", "CONCLAVE_JAAS", "`FILE` in the form of Java's clients, with a section Client for SASL with ZooKeeper's servers: DIGEST-MD5 or Kerberos")
}

// proofFunc begins a proof to the server of a host.
type proofFunc = func(ctx context.Context, host string) (client.Proof, error)

// proof returns the proof of the section Client; nil without a file.
func (f *saslFlag) proof() (proofFunc, error) {
	path := f.jaas.path()
	if path == "" {
		return nil, nil
	}
	const hint = "--jaas or CONCLAVE_JAAS names a file with a section Client; docs/operations.md, \"SASL\", shows one"
	file, err := login.Open(login.Settings{File: path})
	if err != nil {
		return nil, cli.Usage(hint, "%w", err)
	}
	begin, err := file.Client("Client", login.Clients)
	if err != nil {
		return nil, cli.Usage(hint, "%w", err)
	}
	return func(ctx context.Context, host string) (client.Proof, error) {
		p, err := begin(ctx, "zookeeper/"+host)
		if err != nil {
			return nil, unproved{err}
		}
		return provingClient{p}, nil
	}, nil
}

// unproved is an error on this side of a proof: what --jaas names cannot prove who this
// client is.
type unproved struct{ error }

func (e unproved) Unwrap() error { return e.error }

// provingClient is a proof that marks its errors.
type provingClient struct{ client.Proof }

func (p provingClient) Next(token []byte) ([]byte, bool, error) {
	answer, done, err := p.Proof.Next(token)
	if err != nil {
		err = unproved{err}
	}
	return answer, done, err
}

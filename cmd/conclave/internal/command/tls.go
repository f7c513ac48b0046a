package command

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/spf13/cobra"
)

// tlsFlags name the files for TLS connections to servers.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.ca, "tls-ca", "", "`FILE` with the authorities to trust for zk+tls://: .pem, .p12 or .jks (default $CONCLAVE_TLS_CA, else the system's)")
	c.Flags().StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate to show to servers, and its key (default $CONCLAVE_TLS_CERT, else none)")
	c.Flags().StringVar(&f.key, "tls-key", "", "`FILE` in PEM with the key, if it is in a file of its own (default $CONCLAVE_TLS_KEY); $CONCLAVE_TLS_PASSWORD is the password of the files")
}

// dialFunc opens connections.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns the function that dials the servers of a store; nil for one without TLS.
// Changed files are used from the next connection on.
func (f *tlsFlags) dial(store cli.Store) (dialFunc, error) {
	if !store.TLS {
		if *f != (tlsFlags{}) {
			return nil, cli.Usage("write zk+tls://HOST:PORT, with the TLS port of the servers", "--tls-ca, --tls-cert and --tls-key are only for zk+tls://")
		}
		return nil, nil
	}
	password := os.Getenv("CONCLAVE_TLS_PASSWORD")
	settings := secure.Settings{
		Key: secure.Store{Location: cmp.Or(f.cert, os.Getenv("CONCLAVE_TLS_CERT")), Password: password,
			KeyLocation: cmp.Or(f.key, os.Getenv("CONCLAVE_TLS_KEY"))},
		Trust:  secure.Store{Location: cmp.Or(f.ca, os.Getenv("CONCLAVE_TLS_CA")), Password: password},
		Reload: true, DialedNameOnly: true,
	}
	const hint = "name the files with --tls-ca, --tls-cert and --tls-key, or CONCLAVE_TLS_CA, CONCLAVE_TLS_CERT and CONCLAVE_TLS_KEY"
	if settings.Key.KeyLocation != "" && settings.Key.Location == "" {
		return nil, cli.Usage(hint, "a key needs its certificate: name that file, too")
	}
	source, err := secure.Open("", settings, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, cli.Usage(hint, "%w", err)
	}
	return source.Dial, nil
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// configured is the configuration of an ensemble as JSON.
type configured struct {
	Version string       `json:"version"` // hexadecimal
	Servers []configLine `json:"servers"`
	Quorum  string       `json:"quorum"`           // how many servers are needed, as text
	Client  string       `json:"client,omitempty"` // in the form of --server
}

// configLine is one server of a configuration as JSON.
type configLine struct {
	ID     int64  `json:"id"`
	Role   string `json:"role"`
	Line   string `json:"line"`             // the text after server.N=
	Client string `json:"client,omitempty"` // its address for clients, if known
}

// roleOf is the role of a server in a configuration.
func roleOf(m *ensemble.Member) string {
	if m.Observer {
		return "observer"
	}
	return "participant"
}

// quorumText says how many servers are needed.
func quorumText(c *ensemble.Config) string {
	participants := len(c.Participants())
	if c.Groups != nil {
		return fmt.Sprintf("more than half of the weight in more than half of the groups, of %d", participants)
	}
	return fmt.Sprintf("%d of %d", participants/2+1, participants)
}

func newConfig() *cobra.Command {
	var n connection
	var clients bool
	c := &cobra.Command{
		Use:   "config",
		Short: "Print which servers the ensemble has",
		Example: `  conclave config --server zk1:2181
  conclave config --client`,
		Long: `Prints the servers of the ensemble, each as a line server.N= of a dynamic
configuration file, and the version, which a reconfig changes. --client prints
what --server and other clients take instead: host:port of all servers that
serve clients. For a client address 0.0.0.0, it prints the host at which the
servers reach each other. A server whose client port is only in its own file is
named on standard error.`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return n.session(c, func(ctx context.Context, s *session) error {
				config, err := inForce(ctx, s)
				if err != nil {
					return err
				}
				found, lost := describeConfig(config, s.Server())
				if clients {
					remarkLost(c.ErrOrStderr(), serversText(lost))
				}
				text := config.Text()
				if clients {
					text = found.Client
				}
				return s.Answer(found, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, text)
					return err
				})
			})
		},
	}
	n.add(c)
	c.Flags().BoolVarP(&clients, "client", "c", false, "print what clients pass as --server: host:port,host:port...")
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

// inForce reads the configuration of the ensemble.
func inForce(ctx context.Context, s *session) (*ensemble.Config, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	text, _, err := s.GetConfig(ctx)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, cli.NotFound(errors.New("the server has no configuration of an ensemble"), "it is standalone, as conclave status shows")
	}
	return ensemble.Parse(string(text))
}

// describeConfig converts a configuration to JSON, for a client that reaches one of its
// servers at an address. It also returns the ids of the servers whose address for clients
// is unknown.
func describeConfig(config *ensemble.Config, asked string) (configured, []string) {
	found := configured{Version: strconv.FormatUint(uint64(config.Version), 16), Quorum: quorumText(config)}
	at := map[string]string{}
	for _, m := range told(config, asked) {
		at[m.id] = m.client
	}
	var clients, lost []string
	for i := range config.Members {
		m := &config.Members[i]
		one := configLine{ID: int64(m.ID), Role: roleOf(m), Line: m.String(), Client: at[strconv.FormatInt(int64(m.ID), 10)]}
		found.Servers = append(found.Servers, one)
		if one.Client == "" {
			lost = append(lost, strconv.FormatInt(one.ID, 10))
		} else {
			clients = append(clients, one.Client)
		}
	}
	found.Client = strings.Join(clients, ",")
	return found, lost
}

// told returns the servers of a configuration whose lines have an address for clients.
func told(config *ensemble.Config, asked string) []member {
	all := members(config.Text(), asked, "")
	for i := range all {
		if m := config.Members[i]; m.Client.Port == 0 {
			all[i].client = ""
		}
	}
	return all
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// standing is what one server says of itself.
type standing struct {
	Server      string            `json:"server"`
	Error       string            `json:"error,omitempty"`
	Version     string            `json:"version,omitempty"`
	Mode        string            `json:"mode,omitempty"`
	Zxid        string            `json:"zxid,omitempty"`
	Znodes      string            `json:"znodes,omitempty"`
	Connections string            `json:"connections,omitempty"`
	Outstanding string            `json:"outstanding,omitempty"`
	Latency     string            `json:"latencyMs,omitempty"`
	Mntr        map[string]string `json:"mntr,omitempty"` // where the server answers mntr
}

func newStatus() *cobra.Command {
	var output outputFlag
	var servers string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "Ask servers how they are",
		Long: `Asks each server with the four-letter words srvr and mntr, so it works with
any ZooKeeper. mntr, which -o json shows whole, must be on the server's
4lw.commands.whitelist. The exit code is 3 if a server does not answer.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			list, err := cli.Servers(servers)
			if err != nil {
				return err
			}
			all := askAll(c.Context(), cli.ServerList(list), timeout)
			if err := p.Answer(all, func(w io.Writer) error { return statusTable(w, all) }); err != nil {
				return err
			}
			return unanswered(all)
		},
	}
	output.add(c)
	c.Flags().StringVarP(&servers, "server", "s", "", "host:port[,host:port...] (default $CONCLAVE_STORE, else "+cli.DefaultServers+")")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for each server")
	return c
}

// askAll asks all servers at once.
func askAll(ctx context.Context, servers []string, timeout time.Duration) []standing {
	all := make([]standing, len(servers))
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			all[i] = ask(ctx, server)
		})
	}
	group.Wait()
	return all
}

func ask(ctx context.Context, server string) standing {
	s := standing{Server: server}
	text, err := word(ctx, server, "srvr")
	if err != nil {
		s.Error = err.Error()
		return s
	}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Latency min/avg/max":
			s.Latency = value
		case "Connections":
			s.Connections = value
		case "Outstanding":
			s.Outstanding = value
		case "Zxid":
			s.Zxid = value
		case "Mode":
			s.Mode = value
		case "Node count":
			s.Znodes = value
		}
	}
	if s.Mode == "" {
		s.Error = strings.TrimSpace(text)
	}
	s.Mntr = mntr(ctx, server)
	return s
}

// mntr is nil where the word is not on the server's list.
func mntr(ctx context.Context, server string) map[string]string {
	text, err := word(ctx, server, "mntr")
	if err != nil {
		return nil
	}
	var figures map[string]string
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
			if figures == nil {
				figures = map[string]string{}
			}
			figures[key] = value
		}
	}
	return figures
}

// wordBytesMax bounds the answer to a four-letter word.
const wordBytesMax = 1 << 20

// word sends a four-letter word and returns the answer.
func word(ctx context.Context, server, text string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", fmt.Errorf("ask %s %s: %w", server, text, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, wordBytesMax))
	if ctx.Err() != nil {
		return "", fmt.Errorf("ask %s %s: no answer in time", server, text)
	}
	if err != nil || len(answer) == 0 {
		return "", fmt.Errorf("ask %s %s: no answer (%v)", server, text, err)
	}
	return string(answer), nil
}

func statusTable(w io.Writer, all []standing) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		mode := s.Mode
		if s.Error != "" {
			mode = "no answer"
		}
		rows[i] = []string{s.Server, dash(mode), dash(s.Zxid), dash(s.Znodes), dash(s.Connections), dash(s.Outstanding), dash(s.Latency), dash(s.Version)}
	}
	return cli.Table(w, []string{"SERVER", "MODE", "ZXID", "ZNODES", "CONNECTIONS", "OUTSTANDING", "LATENCY MS MIN/AVG/MAX", "VERSION"}, rows)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// unanswered is the error of servers that did not answer.
func unanswered(all []standing) error {
	for _, s := range all {
		if s.Error != "" {
			return &cli.Error{Err: fmt.Errorf("%s: %s", s.Server, s.Error), Exit: cli.ExitNoServer,
				Hint: "is it running, and is this the client port? start one with `conclave dev`"}
		}
	}
	return nil
}

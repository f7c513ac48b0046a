package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// standing is what one server reports about itself, as text; "" if it does not report it.
type standing struct {
	Server      string
	ID          string
	Error       string
	Version     string
	Mode        string
	Epoch       string
	Zxid        string
	Lag         string // transactions of the leader that it has not stored; "5+" means at least 5
	InSync      string // of a leader: how many of its followers are in sync
	Znodes      string
	Connections string
	Sessions    string
	Outstanding string
	Received    string            // requests, since the start or a reset
	Latency     string            // milliseconds, min/avg/max
	Mntr        map[string]string // if the server answers mntr

	membership []member
}

// notServing is the beginning of the answer of a server without a leader.
const notServing = "This ZooKeeper instance is not currently serving requests"

func newStatus() *cobra.Command {
	var output outputFlag
	var secure tlsFlags
	var servers string
	var timeout time.Duration
	var only bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of servers",
		Example: `  conclave status
  conclave status --server zk1:2181,zk2:2181,zk3:2181
  conclave status -o json`,
		Long: `Asks each server with the four-letter words srvr, mntr and conf, so it works with
any ZooKeeper. It finds the other servers of an ensemble in conf, or else in the
znode /zookeeper/config, and asks them too. "-" means not reported: mntr and conf
must be on a server's 4lw.commands.whitelist. Over TLS (zk+tls://), only the named
servers are asked, because the others report only their port without TLS.

LAG is how many of the leader's transactions a server has not stored. IN SYNC is how
many of a leader's followers are in sync; one whose disk is full is not. LATENCY is
the minimum, the average and the maximum. -o json includes all of mntr. A server that
cannot be found, because it shares a host and its line has no client port, is named
on standard error. The exit code is 3 if a server does not answer or does not serve,
and 1 if the disk of one is full.`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			list, err := cli.Servers(servers)
			if err != nil {
				return err
			}
			dial, err := secure.dial(list)
			if err != nil {
				return err
			}
			all := askAll(c.Context(), asker{dial}, cli.ServerList(list.Servers), timeout)
			if !only && !list.TLS {
				var lost string
				all, lost = askOthers(c.Context(), all, timeout)
				remarkLost(c.ErrOrStderr(), lost)
			}
			compare(all)
			for _, closed := range portsFailed(all) {
				fmt.Fprintln(c.ErrOrStderr(), "conclave: "+cli.Visible(closed))
			}
			if err := p.Answer(answers(all), func(w io.Writer) error { return statusTable(w, all) }); err != nil {
				return err
			}
			return errors.Join(unanswered(all), fullError(all))
		},
	}
	output.add(c)
	secure.add(c)
	c.Flags().StringVarP(&servers, "server", "s", "", "host:port[,host:port...], or zk+tls://host:port (default $CONCLAVE_STORE, else "+cli.DefaultServers+")")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for each server")
	c.Flags().BoolVar(&only, "only", false, "do not look for the other servers of the ensemble")
	return c
}

// remarkLost names the servers of the ensemble that could not be asked.
func remarkLost(w io.Writer, lost string) {
	if lost != "" {
		fmt.Fprintf(w, "conclave: not shown: %s, whose client port no server reports; name all servers with --server, "+
			"or write the client port at the end of their lines in zoo.cfg (server.1=host:2888:3888;2181)\n", lost)
	}
}

// portsFailed returns lines about the ports that servers should have opened but have not.
func portsFailed(all []standing) (lines []string) {
	for _, s := range all {
		if why := s.Mntr["zk_ports_failed_why"]; why != "" {
			lines = append(lines, s.Server+" cannot open a port, and tries it each second: "+why)
		}
	}
	return lines
}

// askAll asks all servers at the same time.
func askAll(ctx context.Context, a asker, servers []string, timeout time.Duration) []standing {
	all := make([]standing, len(servers))
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			all[i] = a.ask(ctx, server)
		})
	}
	group.Wait()
	return all
}

func (a asker) ask(ctx context.Context, server string) standing {
	s := standing{Server: server}
	text, err := a.fourLetterWord(ctx, server, "srvr")
	if err != nil {
		s.Error = err.Error()
		return s
	}
	for key, value := range pairs(text, ": ") {
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Latency min/avg/max":
			s.Latency = value
		case "Connections":
			s.Connections = value
		case "Outstanding":
			s.Outstanding = value
		case "Received":
			s.Received = value
		case "Zxid":
			s.Zxid = value
		case "Mode":
			s.Mode = value
		case "Node count":
			s.Znodes = value
		}
	}
	if s.Mode == "" {
		if s.Error = strings.TrimSpace(text); s.Error == notServing {
			s.Mode = "not serving"
		}
		return s
	}
	s.askMore(ctx, a)
	return s
}

// askMore sends the commands that a server may refuse.
func (s *standing) askMore(ctx context.Context, a asker) {
	if zxid, err := strconv.ParseUint(strings.TrimPrefix(s.Zxid, "0x"), 16, 64); err == nil {
		s.Epoch = strconv.FormatUint(zxid>>32, 10)
	}
	if text, err := a.fourLetterWord(ctx, s.Server, "mntr"); err == nil {
		s.Mntr = pairs(text, "\t")
	}
	s.readMntr()
	if text, err := a.fourLetterWord(ctx, s.Server, "conf"); err == nil {
		conf := pairs(text, "=")
		s.ID = conf["serverId"]
		if s.Mode == "standalone" {
			s.ID = ""
		}
		s.membership = members(text, s.Server, conf["clientPort"])
	}
}

// readMntr copies the values that the server reports in mntr.
func (s *standing) readMntr() {
	s.Sessions = s.Mntr["zk_global_sessions"]
	if epoch, told := s.Mntr["zk_epoch"]; told {
		s.Epoch = epoch
	}
	synced, told := s.Mntr["zk_synced_followers"]
	if participants, err := strconv.Atoi(s.Mntr["zk_quorum_size"]); told && err == nil {
		s.InSync = synced + "/" + strconv.Itoa(participants-1)
	}
}

// pairs returns the keys and values in the lines of a text; other lines are skipped.
func pairs(text, sep string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), sep); ok {
			found[key] = value
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// asker asks servers. It uses connections without TLS unless open is set.
type asker struct{ open dialFunc }

func (a asker) dial(ctx context.Context, server string) (net.Conn, error) {
	if a.open != nil {
		return a.open(ctx, "tcp", server)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", server)
}

// answerBytesMax bounds the answer to a four-letter word.
const answerBytesMax = 1 << 20

// fourLetterWord sends one and returns the answer.
func (a asker) fourLetterWord(ctx context.Context, server, name string) (string, error) {
	return a.tell(ctx, server, name, answerBytesMax)
}

// tell sends a four-letter word and returns the answer, of at most bytesMax bytes.
func (a asker) tell(ctx context.Context, server, name string, bytesMax int64) (string, error) {
	conn, err := a.dial(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	if _, err := io.WriteString(conn, name); err != nil {
		return "", fmt.Errorf("ask %s %s: %w", server, name, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, bytesMax+1))
	if ctx.Err() != nil {
		return "", fmt.Errorf("ask %s %s: no answer in time", server, name)
	}
	if int64(len(answer)) > bytesMax {
		return "", fmt.Errorf("ask %s %s: the answer is longer than %d bytes", server, name, bytesMax)
	}
	if err == nil && len(answer) == 0 {
		err = errEmpty
	}
	if err != nil {
		return "", fmt.Errorf("ask %s %s: no answer (%w)", server, name, err)
	}
	return string(answer), nil
}

// errEmpty is returned if a server has closed the connection in order without an answer.
var errEmpty = errors.New("it is empty")

// compare computes how far each server is behind the leader. It uses what the leader knows
// to be stored on the server, if the leader reports that, and otherwise the zxids that both
// report. A server in an older epoch is behind by at least all transactions of this epoch,
// if there are any: a leader begins its epoch with a zxid that belongs to no transaction.
func compare(all []standing) {
	first := leaderOf(all)
	if first == nil {
		return
	}
	withoutFull(all, first)
	leader, _ := strconv.ParseUint(first.Zxid, 0, 64)
	for i := range all {
		zxid, err := strconv.ParseUint(all[i].Zxid, 0, 64)
		switch {
		case err != nil || all[i].Mode == "leader":
		case all[i].unstored(first) != "":
			all[i].Lag = all[i].unstored(first)
		case zxid>>32 < leader>>32 && leader&0xffffffff == 0:
		case zxid>>32 < leader>>32:
			all[i].Lag = strconv.FormatUint(leader&0xffffffff, 10) + "+"
		default:
			all[i].Lag = strconv.FormatUint(leader-min(zxid, leader), 10)
		}
	}
}

var statusHeader = []string{
	"SERVER", "ID", "ROLE", "EPOCH", "ZXID", "LAG", "IN SYNC", "SESSIONS", "CLIENTS", "ZNODES", "LATENCY MS", "VERSION",
}

func statusTable(w io.Writer, all []standing) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		role := s.Mode
		if role == "" && s.Error != "" {
			role = "no answer"
		}
		rows[i] = []string{
			s.Server, s.ID, role, s.Epoch, s.Zxid, s.Lag, s.InSync, s.Sessions, s.Connections, s.Znodes, shortLatency(s.Latency), shortVersion(s.Version),
		}
		for j := range rows[i] {
			rows[i][j] = dash(rows[i][j])
		}
	}
	return cli.Table(w, statusHeader, rows)
}

// shortLatency rounds the average of min/avg/max to one decimal.
func shortLatency(text string) string {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return text
	}
	average, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return text
	}
	return fmt.Sprintf("%s/%.1f/%s", parts[0], average, parts[2])
}

// shortVersion removes the revision that ZooKeeper appends to its version, and the
// ZooKeeper version that a Conclave server says it corresponds to.
func shortVersion(version string) string {
	number, rest, _ := strings.Cut(version, "-")
	if strings.HasPrefix(rest, "conclave-") {
		return rest
	}
	if len(rest) == 40 {
		return number
	}
	return version
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
		if s.Error == "" {
			continue
		}
		hint := "check that it is running, and that this is its client port; `conclave dev` starts servers to experiment with"
		if slices.ContainsFunc(all, func(s standing) bool { return s.Error == "" }) {
			hint = "the others answer: start it again, or see in its log why it ended; `conclave dev start ID` starts a server of `conclave dev`"
		}
		if strings.Contains(s.Error, "certificate signed by") {
			hint = distrustHint
		}
		if s.Mode != "" {
			hint = "it has no leader: more than half of the servers must run and reach each other"
		}
		return &cli.Error{Err: fmt.Errorf("%s: %s", s.Server, s.Error), Exit: cli.ExitNoServer, Hint: hint}
	}
	return nil
}

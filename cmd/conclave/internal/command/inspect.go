package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// inspection is the flags of commands that ask servers for what they report only to
// operators, with four-letter words or on their admin ports.
type inspection struct {
	only  bool
	admin adminFlags
}

func (i *inspection) add(c *cobra.Command) {
	c.Flags().BoolVar(&i.only, "only", false, "do not look for the other servers of the ensemble")
	i.admin.add(c)
}

// adminFlags say how the admin ports of servers are asked.
type adminFlags struct {
	port   uint16
	tokens fileFlag
}

func (f *adminFlags) add(c *cobra.Command) {
	c.Flags().Uint16Var(&f.port, "admin-port", 8080, "port of the admin servers, which are asked if a four-letter word is not allowed; 0 asks none")
	f.tokens.add(c, "admin-token-file", "CONCLAVE_ADMIN_TOKEN_FILE", "`FILE` with tokens for those ports, as conclave.adminTokenFile; the first one is shown")
}

// access reads the file with tokens.
func (f *adminFlags) access() (adminAccess, error) {
	a := adminAccess{port: f.port}
	if path := f.tokens.path(); path != "" {
		tokens, err := httpport.ReadTokens(path)
		if err != nil {
			return a, cli.Usage("--admin-token-file or CONCLAVE_ADMIN_TOKEN_FILE names a file with the tokens of the admin ports, one per line", "%w", err)
		}
		a.token = tokens.First
	}
	return a, nil
}

// adminAccess is how the admin ports of servers are asked.
type adminAccess struct {
	port  uint16        // the same on all servers; 0 asks none
	token func() string // nil or "" for none
}

// show makes a request show the token.
func (a *adminAccess) show(request *http.Request) {
	if a.token != nil && a.token() != "" {
		request.Header.Set("Authorization", "Bearer "+a.token())
	}
}

// inspecting is the flags of such commands that open no session.
type inspecting struct {
	outputFlag
	tlsFlags
	inspection
	servers string
	timeout time.Duration
}

func (v *inspecting) add(c *cobra.Command) {
	v.outputFlag.add(c)
	v.tlsFlags.add(c)
	v.inspection.add(c)
	c.Flags().StringVarP(&v.servers, "server", "s", "", "host:port[,host:port...], or zk+tls://host:port (default $CONCLAVE_STORE, else "+cli.DefaultServers+")")
	c.Flags().DurationVar(&v.timeout, "timeout", 10*time.Second, "how long to wait for each server")
	c.ValidArgsFunction = cobra.NoFileCompletions
}

// inspector asks the servers of an ensemble.
type inspector struct {
	asker
	servers []standing // servers that serve; the leader first
	admin   adminAccess
	timeout time.Duration
	remarks io.Writer
}

// open finds the servers to ask.
func (v *inspecting) open(c *cobra.Command) (*inspector, *cli.Printer, error) {
	p, err := v.printer(c)
	if err != nil {
		return nil, nil, err
	}
	store, err := cli.Servers(v.servers)
	if err != nil {
		return nil, nil, err
	}
	dial, err := v.tlsFlags.dial(store)
	if err != nil {
		return nil, nil, err
	}
	i, err := v.inspection.find(c, store, dial, v.timeout)
	return i, p, err
}

// find finds out which servers serve. It warns about those that do not, and returns an
// error if none does.
func (i *inspection) find(c *cobra.Command, store cli.Store, dial dialFunc, timeout time.Duration) (*inspector, error) {
	access, err := i.admin.access()
	if err != nil {
		return nil, err
	}
	found := &inspector{asker: asker{dial}, admin: access, timeout: timeout, remarks: c.ErrOrStderr()}
	all := askAll(c.Context(), found.asker, cli.ServerList(store.Servers), timeout)
	if !i.only && !store.TLS {
		var lost string
		all, lost = askOthers(c.Context(), all, timeout)
		remarkLost(found.remarks, lost)
	}
	for _, s := range all {
		if s.Error == "" {
			found.servers = append(found.servers, s)
		} else if len(all) > 1 {
			fmt.Fprintf(found.remarks, "conclave: not asked: %s: %s\n", s.Server, s.Error)
		}
	}
	if len(found.servers) == 0 {
		return nil, unanswered(all)
	}
	sortBy(found.servers, func(a, b standing) int { return knowsAll(b) - knowsAll(a) })
	return found, nil
}

// knowsAll returns 1 for a server that knows all sessions, otherwise 0.
func knowsAll(s standing) int {
	if s.Mode == "leader" || s.Mode == "standalone" {
		return 1
	}
	return 0
}

// question is a question to servers, with the functions that parse the answer.
type question struct {
	name   string // the four-letter word
	report string // the command of the admin server
	text   func(answer string)
	json   func(fields map[string]json.RawMessage) error
}

// toldBytesMax bounds the answer of one server: a million watches are some 50 MB.
const toldBytesMax = 512 << 20

const notAllowed = "is not executed because it is not in the whitelist"

// ask asks one server a question: as a four-letter word or, if that is not allowed, at its
// admin port.
func (i *inspector) ask(ctx context.Context, server string, q question) error {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	answer, err := i.tell(ctx, server, q.name, toldBytesMax)
	if err != nil {
		return &cli.Error{Err: err, Exit: cli.ExitNoServer, Hint: "the server ended the connection: look at its log"}
	}
	if !strings.Contains(answer[:min(len(answer), 100)], notAllowed) {
		q.text(answer)
		return nil
	}
	hint := fmt.Sprintf("add %s to 4lw.commands.whitelist in the zoo.cfg of %s, or set admin.enableServer=true there; --admin-port names its port, "+
		"--admin-token-file a token for it, and with zk+tls:// it is asked over TLS first", q.name, server)
	if i.admin.port == 0 {
		return cli.Failed(fmt.Errorf("%s: %s is not on its 4lw.commands.whitelist", server, q.name), hint)
	}
	host, _, _ := net.SplitHostPort(server)
	fields, err := i.report(ctx, net.JoinHostPort(host, strconv.Itoa(int(i.admin.port)))+"/commands/"+q.report)
	if err == nil {
		err = q.json(fields)
	}
	if err != nil {
		return cli.Failed(fmt.Errorf("%s: %s is not on its 4lw.commands.whitelist, and its admin port does not answer: %w", server, q.name, err), hint)
	}
	return nil
}

// report asks an admin server. If the servers are asked over TLS, it tries TLS with the
// same files first, and then clear text, which shows no token: somebody between the two could
// ask for it.
func (i *inspector) report(ctx context.Context, at string) (map[string]json.RawMessage, error) {
	if i.open == nil {
		return fetchReport(ctx, http.DefaultClient, "http://"+at, &i.admin)
	}
	over := &http.Client{Transport: &http.Transport{DialTLSContext: i.open, DisableKeepAlives: true}}
	fields, err := fetchReport(ctx, over, "https://"+at, &i.admin)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
		return fetchReport(ctx, http.DefaultClient, "http://"+at, &adminAccess{})
	}
	return fields, err
}

// fetchReport asks an admin server.
func fetchReport(ctx context.Context, client *http.Client, at string, access *adminAccess) (map[string]json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	access.show(request)
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	fields := map[string]json.RawMessage{}
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return nil, fmt.Errorf("get %s: status %s: %s", at, answer.Status, strings.TrimSpace(string(why)))
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, toldBytesMax)).Decode(&fields); err != nil {
		return nil, fmt.Errorf("get %s: it is not an admin server: %w", at, err)
	}
	if problem := string(fields["error"]); problem != "" && problem != "null" {
		return nil, fmt.Errorf("get %s: %s", at, problem)
	}
	return fields, nil
}

// each asks all servers at the same time, and returns the error of each.
func (i *inspector) each(ctx context.Context, q func(at int, server string) question) []error {
	problems := make([]error, len(i.servers))
	var all sync.WaitGroup
	for at, s := range i.servers {
		all.Go(func() { problems[at] = i.ask(ctx, s.Server, q(at, s.Server)) })
	}
	all.Wait()
	return problems
}

// sessionNumber parses a session id as an admin server writes it: a number or a text.
func sessionNumber(text string) (zk.SessionID, error) {
	text = strings.Trim(text, `"`)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return zk.SessionID(n), nil
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the id of a session", text)
	}
	return zk.SessionID(n), nil
}

// field decodes one field of a report.
func field(fields map[string]json.RawMessage, name string, into any) error {
	text, ok := fields[name]
	if !ok {
		return errors.New("the report lacks " + name)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

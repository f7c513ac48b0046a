package shell

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// errNotConnected is zkCli.sh's error for commands after close.
const errNotConnected = failure("Not connected")

// Connect ends the current session, if there is one, and begins one with servers; "" means
// the servers of Options. It does not wait for a server: see Await.
func (s *Shell) Connect(servers string) error {
	conn, err := s.options.Open(servers)
	if err != nil {
		return err
	}
	s.disconnect()
	s.mu.Lock()
	defer s.mu.Unlock()
	if servers == "" {
		servers = s.options.Servers
	}
	s.servers, s.dir, s.credentials = servers, zk.RootPath, nil
	s.follow(conn)
	return nil
}

// Await waits until the session is attached to a server.
func (s *Shell) Await(ctx context.Context) error {
	conn, err := s.session()
	if err != nil {
		return err
	}
	return conn.WaitConnected(ctx)
}

// session returns the session, whatever its state.
func (s *Shell) session() (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, errNotConnected
	}
	return s.conn, nil
}

// within returns the session and a context for one exchange with it.
func (s *Shell) within(ctx context.Context) (*client.Client, context.Context, context.CancelFunc, error) {
	conn, err := s.session()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	return conn, ctx, cancel, nil
}

// disconnect ends the session.
func (s *Shell) disconnect() {
	s.mu.Lock()
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // if no server can be told, the session expires by itself
	}
}

// Close ends the session, and with it its ephemerals and the goroutines that follow it.
func (s *Shell) Close() {
	s.disconnect()
	s.end()
	s.group.Wait()
	s.flush()
}

// follow makes conn the shell's session, and reports its changes of state. mu is held.
func (s *Shell) follow(conn *client.Client) {
	s.conn = conn
	states := conn.Subscribe()
	s.group.Go(func() {
		lost := false
		for e := range states.Events() {
			if s.options.Changed != nil {
				s.options.Changed()
			}
			switch e.State {
			case client.Suspended:
				if s.probes() {
					break
				}
				lost = true
				s.news(red, "the connection was lost: looking for a server"+why(e.Err))
			case client.Connected, client.ReadOnly:
				if lost {
					s.news(faint, "connected again, to "+e.Server+": the session "+e.Session.String()+" lives on")
				}
				lost = false
				s.probe(false)
			case client.Lost:
				s.news(red, "the session "+e.Session.String()+" has expired: its ephemerals and watches are gone")
				s.renew(conn)
			case client.AuthFailed:
				s.news(red, "a server refused a credential, and ended the session: connect opens another one")
			}
		}
	})
}

// probe notes that a request is under way after which the server may end the connection.
func (s *Shell) probe(asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = asked
}

func (s *Shell) probes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probing
}

func why(err error) string {
	if err == nil || errors.Is(err, zk.ErrConnectionLoss) {
		return ""
	}
	return ": " + cli.Visible(err.Error())
}

// renew replaces an expired session with a new one that has the same credentials.
func (s *Shell) renew(old *client.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != old || s.life.Err() != nil {
		return
	}
	servers := s.servers
	if servers == s.options.Servers {
		servers = ""
	}
	conn, err := s.options.Open(servers)
	if err != nil {
		s.conn = nil
		s.group.Go(func() { s.news(red, "no new session: "+cli.Visible(err.Error())) })
		return
	}
	credentials := s.credentials
	s.follow(conn)
	s.group.Go(func() {
		for _, c := range credentials {
			_ = conn.AddAuth(s.life, c.Scheme, c.Data) // an error would show in the session's state
		}
		if conn.WaitConnected(s.life) == nil {
			s.news(faint, "new session: "+conn.SessionID().String())
		}
		_ = old.Close() // it has ended already: this waits for its goroutines
	})
}

// news prints a message that is no answer to a command. It may do so at any time.
func (s *Shell) news(color, text string) { s.say(s.paint(color, "conclave: "+text)) }

// Prompt returns the text in front of a line.
func (s *Shell) Prompt() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := cli.Visible(s.servers) + " "
	switch state := s.state(); state {
	case client.Connected:
	default:
		text += "(" + state.String() + ") "
	}
	if s.block != nil {
		return text + "multi> "
	}
	return text + cli.Visible(s.dir) + "> "
}

// state returns the state of the session. mu is held.
func (s *Shell) state() client.State {
	if s.conn == nil {
		return client.Closed
	}
	return s.conn.State()
}

func runConnect(ctx context.Context, s *Shell, in *input) error {
	if err := s.Connect(in.arg(0)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.Await(ctx)
}

func runClose(_ context.Context, s *Shell, _ *input) error {
	s.disconnect()
	return nil
}

func runQuit(_ context.Context, s *Shell, _ *input) error {
	s.left = true
	return nil
}

func runAddAuth(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	credential := client.Credential{Scheme: in.arg(0), Data: []byte(in.arg(1))}
	if err := conn.AddAuth(ctx, credential.Scheme, credential.Data); err != nil {
		return explain(err, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credentials = append(s.credentials, credential)
	return nil
}

func runWhoAmI(ctx context.Context, s *Shell, _ *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	all, err := conn.WhoAmI(ctx)
	if err != nil {
		return explain(err, "")
	}
	s.println("Auth scheme: User")
	for _, one := range all {
		s.println(cli.Visible(one.Scheme) + ": " + cli.Visible(one.ID))
	}
	return nil
}

func runSync(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	path := s.path(in.arg(0))
	if err := conn.Sync(ctx, path); err != nil {
		return explain(err, path)
	}
	s.println("Sync is OK")
	return nil
}

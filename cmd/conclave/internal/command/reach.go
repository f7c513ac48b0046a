package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

const (
	// silenceMax is how long a store may be silent before the user is told so.
	silenceMax = time.Second
	// reachPause is the time between two attempts to reach a store.
	reachPause = 500 * time.Millisecond
	// dialMax bounds one look at whether a server accepts connections.
	dialMax = time.Second
)

// view waits for the first view of an election. After a second without one it reports on
// the standard error what is wrong.
func (o *opened) view(ctx context.Context, name string) (election.View, error) {
	told := warnOfSilence(ctx, o.shown, o.addresses)
	defer told()
	for v, err := range o.Observe(ctx, name) {
		if err != nil {
			return v, o.unanswered(fmt.Errorf("look at election %q: %w", name, err))
		}
		return v, nil
	}
	return election.View{}, o.unanswered(fmt.Errorf("look at election %q: %w", name, context.Cause(ctx)))
}

// watched is view, but also waits while the view shows a leader that may be dead: until
// that leader has renewed or its lease has run out. patience is for the first answer of the
// store.
func (o *opened) watched(ctx context.Context, name string, patience time.Duration) (election.View, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	told := warnOfSilence(ctx, o.shown, o.addresses)
	defer told()
	for v, err := range o.Observe(ctx, name) {
		timer.Stop()
		told()
		if err != nil {
			return v, o.unanswered(fmt.Errorf("look at election %q: %w", name, err))
		}
		if v.Leader == "" || !v.Unconfirmed {
			return v, nil
		}
	}
	return election.View{}, o.unanswered(fmt.Errorf("look at election %q: %w", name, context.Cause(ctx)))
}

// reach waits until the store has answered a candidate once. It waits for servers that
// refuse connections for the time refusing, and for slow ones for the time slow; zero means
// without end. An error that no further attempt can change ends it at once. The first error
// is reported, unless it is that nothing accepts connections.
func (o *opened) reach(ctx context.Context, name string, refusing, slow time.Duration) error {
	if o.membersOnly || o.scheme == "file" {
		return nil // nothing can be reached before the candidate begins
	}
	if slow > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, slow)
		defer cancel()
		timer := time.AfterFunc(refusing, func() {
			if refused(ctx, o.addresses) != nil {
				cancel()
			}
		})
		defer timer.Stop()
	}
	told := warnOfSilence(ctx, o.shown, o.addresses)
	defer told()
	for first := true; ; first = false {
		err := o.tryReach(ctx, name)
		var failed *cli.Error
		if err == nil || !errors.As(err, &failed) || failed.Exit != cli.ExitNoServer {
			return err
		}
		if first && ctx.Err() == nil && refused(ctx, o.addresses) == nil {
			told()
			fmt.Fprintf(os.Stderr, "conclave: %v; still trying\n", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(reachPause):
		}
	}
}

func (o *opened) tryReach(ctx context.Context, name string) error {
	for _, err := range o.Observe(ctx, name) {
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
		return o.unanswered(fmt.Errorf("reach the store: %w", err))
	}
	return o.unanswered(fmt.Errorf("reach the store: %w", context.DeadlineExceeded))
}

// warnOfSilence reports after a second that the store does not answer, unless the returned
// function is called before. After that function has returned, nothing is reported.
func warnOfSilence(ctx context.Context, shown string, addresses []string) (answered func()) {
	return afterSilence(silenceMax, func() error { return refused(ctx, addresses) }, func(cause error) {
		fmt.Fprintf(os.Stderr, "conclave: %s: %v, still trying\n", shown, cause)
	})
}

// afterSilence calls look after a time to find the cause, and reports it unless there was
// an answer by then. look may take long.
func afterSilence(limit time.Duration, look func() error, say func(error)) (answered func()) {
	var saying sync.Mutex
	over := false
	timer := time.AfterFunc(limit, func() {
		cause := cmp.Or(look(), errors.New("no answer"))
		saying.Lock()
		defer saying.Unlock()
		if !over {
			say(cause)
		}
	})
	return func() {
		timer.Stop()
		saying.Lock()
		defer saying.Unlock()
		over = true
	}
}

// refused returns why no server accepts a connection; nil if one does or the addresses are
// not known.
func refused(ctx context.Context, addresses []string) error {
	var refused error
	for _, address := range addresses {
		within, cancel := context.WithTimeout(ctx, dialMax)
		conn, err := (&net.Dialer{}).DialContext(within, "tcp", address)
		cancel()
		if err == nil {
			_ = conn.Close()
			return nil
		}
		refused = err
	}
	return refused
}

// unanswered adds an exit code and a hint to an error of a store.
func (o *opened) unanswered(err error) error {
	var dial *net.OpError
	silent := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &dial)
	refusal := refused(context.Background(), o.addresses)
	switch {
	case errors.Is(err, context.Canceled):
		return err // package cli knows what it means
	case refusal != nil:
		err = fmt.Errorf("%s: %w", o.shown, refusal)
	case !silent && o.scheme == "zookeeper":
		return err
	case !silent:
		return cli.Failed(err, "check that it is the right store, and that you may use it; --store or CONCLAVE_STORE names it, as in "+o.example+o.credentials())
	case o.distrust.why() != nil:
		return &cli.Error{Err: fmt.Errorf("%s: %w", o.shown, o.distrust.why()), Exit: cli.ExitNoServer, Hint: certificateHint(o.distrust.why())}
	case o.scheme == "zookeeper":
		return &cli.Error{Err: err, Exit: cli.ExitNoServer,
			Hint: unsessionedHint(context.Background(), err, o.addresses, o.distrust != nil)}
	}
	return &cli.Error{Err: err, Exit: cli.ExitNoServer,
		Hint: "the store does not answer: check that it runs, and that --store or CONCLAVE_STORE names it, as in " + o.example}
}

// credentials says where a store's credentials come from; "" if about does not say it.
func (k kind) credentials() string {
	for part := range strings.SplitSeq(k.about, "; ") {
		for _, means := range []string{"credentials", "password", "token", "found as", "as whom"} {
			if strings.Contains(part, means) {
				return "; " + part
			}
		}
	}
	return ""
}

// addresses returns the host:port of the servers in a URL; nil if it has none.
func (k kind) addresses(t target) []string {
	switch {
	case k.scheme == "zookeeper":
		return cli.ServerList(t.Servers)
	case k.port == "":
		return nil
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return nil
	}
	var all []string
	for one := range strings.SplitSeq(u.Host, ",") {
		if _, _, err := net.SplitHostPort(one); err != nil {
			one = net.JoinHostPort(strings.Trim(one, "[]"), k.port)
		}
		all = append(all, one)
	}
	return all
}

// shown returns a store's URL without credentials.
func (t target) shown() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return t.Scheme
	}
	u.RawQuery = ""
	return u.Redacted()
}

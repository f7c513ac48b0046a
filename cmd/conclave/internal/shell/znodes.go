package shell

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// path turns an argument into a path on the server. A path without a leading slash is
// relative to the shell's directory.
func (s *Shell) path(text string) string {
	if text == "" || text[0] == '/' {
		return text
	}
	return path.Join(s.dir, text)
}

// deprecated prints zkCli.sh's warning about a deprecated form of a command.
func (s *Shell) deprecated(old, now string) {
	s.say("'" + old + "' has been deprecated. Please use '" + now + "' instead.")
}

// wantsWatch reports whether a reading command sets a watch, by -w or by a second argument.
func (s *Shell) wantsWatch(in *input, now string) bool {
	if len(in.args) > 1 {
		s.deprecated(in.of.name+" path [watch]", now)
		return true
	}
	return in.has("w")
}

func runCreate(ctx context.Context, s *Shell, in *input) error {
	o, err := createOptions(in)
	if err != nil {
		return err
	}
	at, data := s.path(in.arg(0)), []byte(nil)
	if text := in.arg(0); o.Mode.IsSequential() && strings.HasSuffix(text, "/") && !strings.HasSuffix(at, "/") {
		at += "/" // the number alone is the name
	}
	if len(in.args) > 1 {
		data = []byte(in.arg(1))
	}
	if len(in.args) > 2 {
		if o.ACL, err = cli.ParseACL(in.arg(2)); err != nil {
			return err
		}
	}
	if s.block != nil {
		checked := at
		if o.Mode.IsSequential() {
			checked += "1" // stands for the number that the server will append
		}
		return s.block.add(client.CreateOp(at, data, o), "create", checked)
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	created, _, err := conn.Create(ctx, at, data, o)
	if err != nil {
		return explain(err, at)
	}
	s.printEvents()                          // events that came before the answer
	s.say("Created " + cli.Visible(created)) // zkCli.sh prints this to the standard error
	return nil
}

func createOptions(in *input) (o client.CreateOptions, err error) {
	ttl, err := in.number("t", 10, 0)
	switch {
	case err != nil:
		return o, failure("-t argument must be a long value")
	case in.has("c") && (in.has("s") || in.has("e")):
		return o, failure("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case in.has("t") && in.has("e"):
		return o, failure("TTLs cannot be used with Ephemeral znodes")
	case in.has("t") && in.has("c"):
		return o, failure("TTLs cannot be used with Container znodes")
	case in.has("t") && (ttl < 1 || ttl > zk.TTLMax):
		return o, failure("ttl must be positive and cannot be larger than: " + strconv.FormatInt(zk.TTLMax, 10))
	}
	o.TTL = time.Duration(ttl) * time.Millisecond
	switch {
	case in.has("c"):
		o.Mode = zk.Container
	case in.has("t") && in.has("s"):
		o.Mode = zk.PersistentSequentialTTL
	case in.has("t"):
		o.Mode = zk.PersistentTTL
	case in.has("e") && in.has("s"):
		o.Mode = zk.EphemeralSequential
	case in.has("e"):
		o.Mode = zk.Ephemeral
	case in.has("s"):
		o.Mode = zk.PersistentSequential
	}
	return o, nil
}

func runDelete(ctx context.Context, s *Shell, in *input) error {
	if len(in.args) > 1 {
		s.deprecated("delete path [version]", "delete [-v version] path")
		in.set["v"] = in.arg(1)
	}
	version, err := in.version()
	if err != nil {
		return err
	}
	at := s.path(in.arg(0))
	if s.block != nil {
		return s.block.add(client.DeleteOp(at, version), "delete", at)
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return explain(conn.Delete(ctx, at, version), at)
}

func runDeleteAll(ctx context.Context, s *Shell, in *input) error {
	if _, err := in.number("b", 10, 0); err != nil {
		return err
	}
	conn, err := s.session()
	if err != nil {
		return err
	}
	at := s.path(in.arg(0))
	n, err := conn.DeleteRecursive(ctx, at, -1, nil)
	if err != nil && n > 0 {
		s.say(fmt.Sprintf("%d znodes were deleted before it failed", n))
	}
	return explain(err, at)
}

func runGet(ctx context.Context, s *Shell, in *input) error {
	watch := s.wantsWatch(in, "get [-s] [-w] path")
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.path(in.arg(0))
	var data []byte
	var stat zk.Stat
	if watch {
		var w *client.Watch
		if data, stat, w, err = conn.GetW(ctx, at); err == nil {
			s.keep(w, watchKey{at, dataWatch})
		}
	} else {
		data, stat, err = conn.Get(ctx, at)
	}
	if err != nil {
		return explain(err, at)
	}
	switch {
	case data == nil:
		s.println("null")
	case in.has("x"):
		s.print(dump(data))
	case in.has("b"):
		s.println(base64.StdEncoding.EncodeToString(data))
	default:
		s.println(s.text(data))
	}
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

func runSet(ctx context.Context, s *Shell, in *input) error {
	version, err := in.version()
	if err != nil {
		return err
	}
	at, data := s.path(in.arg(0)), []byte(in.arg(1))
	if in.has("b") {
		if data, err = base64.StdEncoding.DecodeString(in.arg(1)); err != nil {
			return fmt.Errorf("-b: %w", err)
		}
	}
	if s.block != nil {
		return s.block.add(client.SetOp(at, data, version), "set", at)
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	stat, err := conn.Set(ctx, at, data, version)
	if err != nil {
		return explain(err, at)
	}
	s.printEvents()
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

func runStat(ctx context.Context, s *Shell, in *input) error {
	watch := s.wantsWatch(in, "stat [-w] path")
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.path(in.arg(0))
	var stat zk.Stat
	var found bool
	if watch {
		var w *client.Watch
		if stat, found, w, err = conn.ExistsW(ctx, at); err == nil {
			s.keep(w, watchKey{at, dataWatch})
		}
	} else {
		stat, found, err = conn.Exists(ctx, at)
	}
	switch {
	case err != nil:
		return explain(err, at)
	case !found:
		return failure(refusals[zk.ErrNoNode] + cli.Visible(at))
	}
	s.print(statText(stat))
	return nil
}

func runList(ctx context.Context, s *Shell, in *input) error {
	watch := s.wantsWatch(in, "ls [-w] path")
	at := s.dir
	if len(in.args) > 0 {
		at = s.path(in.arg(0))
	}
	if in.has("R") {
		return s.walk(ctx, at, watch, func(path string, _ int) error {
			s.println(cli.Visible(path))
			return nil
		})
	}
	names, stat, err := s.children(ctx, at, watch)
	if err != nil {
		return explain(err, at)
	}
	s.println(list(names))
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

// children returns the names of a znode's children, in order.
func (s *Shell) children(ctx context.Context, at string, watch bool) ([]string, zk.Stat, error) {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return nil, zk.Stat{}, err
	}
	defer cancel()
	var names []string
	var stat zk.Stat
	if watch {
		var w *client.Watch
		if names, stat, w, err = conn.ChildrenW(ctx, at); err == nil {
			s.keep(w, watchKey{at, childWatch})
		}
	} else {
		names, stat, err = conn.Children(ctx, at)
	}
	slices.Sort(names)
	return names, stat, err
}

// walk visits a znode and everything below it, in zkCli.sh's order: all children of a
// znode, then what is below the first of them. Znodes that are deleted meanwhile are
// ignored, except the root.
func (s *Shell) walk(ctx context.Context, root string, watch bool, visit func(path string, level int) error) error {
	names, _, err := s.children(ctx, root, watch)
	if err != nil {
		return explain(err, root)
	}
	if err := visit(root, 0); err != nil {
		return err
	}
	return s.below(ctx, root, names, 1, watch, visit)
}

func (s *Shell) below(ctx context.Context, at string, names []string, level int, watch bool, visit func(string, int) error) error {
	for _, one := range names {
		if err := visit(zk.JoinPath(at, one), level); err != nil {
			return err
		}
	}
	for _, one := range names {
		child := zk.JoinPath(at, one)
		more, _, err := s.children(ctx, child, watch)
		if gone(err) {
			continue
		}
		if err != nil {
			return explain(err, child)
		}
		if err := s.below(ctx, child, more, level+1, watch, visit); err != nil {
			return err
		}
	}
	return nil
}

func runCount(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.path(in.arg(0))
	n, err := conn.CountDescendants(ctx, at)
	if err != nil {
		return explain(err, at)
	}
	s.println(strconv.Itoa(n))
	return nil
}

func runEphemerals(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	prefix := zk.RootPath
	if len(in.args) > 0 {
		prefix = s.path(in.arg(0))
	}
	paths, err := conn.Ephemerals(ctx, prefix)
	if err != nil {
		return explain(err, prefix)
	}
	s.println(list(paths))
	return nil
}

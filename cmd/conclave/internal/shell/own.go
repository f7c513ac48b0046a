package shell

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// A block is the operations between multi and commit.
type block struct {
	operations []client.Operation
	shown      []string
	wrong      error // the error of the first line that was refused
}

// add adds an operation on a path.
func (b *block) add(o client.Operation, what, path string) error {
	if err := zk.ValidatePath(path); err != nil {
		return err
	}
	b.operations, b.shown = append(b.operations, o), append(b.shown, what+" "+path)
	return nil
}

// refuse returns the error of a command that is not allowed in a block.
func (b *block) refuse(command string) error {
	return fmt.Errorf("%s is not allowed in a block: write create, set, delete or check, then commit or abort", command)
}

// setBlock opens a block, or with nil closes the current one. Prompt may be called
// concurrently.
func (s *Shell) setBlock(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = b
}

func runMulti(_ context.Context, s *Shell, _ *input) error {
	if _, err := s.session(); err != nil {
		return err
	}
	s.setBlock(&block{})
	s.remark("write create, set, delete and check; commit carries out all of them or none, abort discards them")
	return nil
}

func runCheck(_ context.Context, s *Shell, in *input) error {
	version, err := in.version()
	if err != nil {
		return err
	}
	if s.block == nil {
		return fmt.Errorf("check is only allowed in a block, after multi")
	}
	at := s.path(in.arg(0))
	return s.block.add(client.CheckOp(at, version), "check", at)
}

func runAbort(_ context.Context, s *Shell, _ *input) error {
	if s.block == nil {
		return fmt.Errorf("there is no block: multi begins one")
	}
	s.remark("the block was discarded")
	s.setBlock(nil)
	return nil
}

// runCommit runs a block. In a script, a block with a refused line fails: the remaining
// lines alone are not what was intended.
func runCommit(ctx context.Context, s *Shell, _ *input) error {
	b := s.block
	if b == nil {
		return fmt.Errorf("there is no block: multi begins one")
	}
	s.setBlock(nil)
	if b.wrong != nil && !s.options.Person {
		return fmt.Errorf("nothing was done, because a line of the block was refused: %w", b.wrong)
	}
	if len(b.operations) == 0 {
		return nil
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	results, err := conn.Multi(ctx, b.operations...)
	for i, r := range results {
		if r.Code != zk.OK && r.Code != zk.ErrRuntimeInconsistency {
			return fmt.Errorf("nothing was done, because of operation %d, %s: %w", i+1, cli.Visible(b.shown[i]), r.Code)
		}
	}
	if err != nil {
		return err
	}
	s.printEvents()
	for i, r := range results {
		text := b.shown[i]
		if r.Op.IsCreate() {
			text = "create " + r.Path
		}
		s.println("done: " + cli.Visible(text))
	}
	return nil
}

func runCd(ctx context.Context, s *Shell, in *input) error {
	at := zk.RootPath
	if len(in.args) > 0 {
		at = path.Clean(s.path(in.arg(0)))
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	_, found, err := conn.Exists(ctx, at)
	if err != nil {
		return explain(err, at)
	}
	if !found {
		return failure(refusals[zk.ErrNoNode] + cli.Visible(at))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = at
	return nil
}

func runPwd(_ context.Context, s *Shell, _ *input) error {
	s.println(cli.Visible(s.dir))
	return nil
}

func runTree(ctx context.Context, s *Shell, in *input) error {
	levels, err := in.number("L", 10, 1<<30)
	if err != nil {
		return err
	}
	at := s.dir
	if len(in.args) > 0 {
		at = s.path(in.arg(0))
	}
	names, _, err := s.children(ctx, at, false)
	if err != nil {
		return explain(err, at)
	}
	s.println(cli.Visible(at))
	return s.branch(ctx, at, names, "", levels)
}

// branch prints everything below a znode, each line after a prefix.
func (s *Shell) branch(ctx context.Context, at string, names []string, prefix string, levels int64) error {
	if levels < 1 {
		return nil
	}
	for i, one := range names {
		mark, more := "├── ", "│   "
		if i == len(names)-1 {
			mark, more = "└── ", "    "
		}
		s.println(prefix + mark + cli.Visible(one))
		if levels == 1 {
			continue
		}
		child := zk.JoinPath(at, one)
		below, _, err := s.children(ctx, child, false)
		if gone(err) {
			continue
		}
		if err != nil {
			return explain(err, child)
		}
		if err := s.branch(ctx, child, below, prefix+more, levels-1); err != nil {
			return err
		}
	}
	return nil
}

func runFind(ctx context.Context, s *Shell, in *input) error {
	pattern := in.arg(1)
	fold := func(text string) string { return text }
	if in.has("i") {
		fold = strings.ToLower
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("pattern %s: %w", cli.Visible(pattern), err)
	}
	return s.walk(ctx, s.path(in.arg(0)), false, func(at string, level int) error {
		_, last := zk.SplitPath(at)
		if fits, _ := path.Match(fold(pattern), fold(last)); fits && level > 0 {
			s.println(cli.Visible(at))
		}
		return nil
	})
}

//go:build linux

package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoBase is returned if there is no commit to compare with: this is the first commit, or
// a clone without history.
var ErrNoBase = errors.New("check: there is no commit before this one")

// base returns the default commit to compare with: the last one, or the one before it if
// nothing has changed since.
func base(ctx context.Context, root string) (string, error) {
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "HEAD", nil
	}
	if _, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "HEAD~1"); err != nil {
		return "", ErrNoBase
	}
	return "HEAD~1", nil
}

// withTree runs f with a work tree of a commit, and removes it.
func withTree(ctx context.Context, root, commit string, f func(dir string) error) error {
	scratch, err := os.MkdirTemp("", "conclave-base-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	dir := filepath.Join(scratch, "tree")
	if _, err := git(ctx, root, "worktree", "add", "--quiet", "--detach", dir, commit); err != nil {
		return err
	}
	// This also runs after an interrupt, because otherwise git remembers the work tree.
	defer func() { _, _ = git(context.WithoutCancel(ctx), root, "worktree", "remove", "--force", dir) }()
	return f(dir)
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, "git", args...)
}

// output runs a command and returns what it has printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("check: %s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, errors.String())
	}
	return strings.TrimSpace(string(out)), nil
}

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/networkfs"
)

// refuse returns an error for a file that others could not lock, or whose log and journal
// others would not find, because SQLite names these after the file (sqlite-Q5).
func refuse(path string) error {
	at := located(path)
	if err := refuseNetwork(path, filepath.Dir(at)); err != nil {
		return err
	}
	info, err := os.Stat(at)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it is checked again when it was created
	}
	if err != nil {
		return err
	}
	if err := refuseNetwork(path, at); err != nil || !info.Mode().IsRegular() {
		return err
	}
	if n := links(info); n > 1 {
		return fmt.Errorf("%s has %d names: %w", at, n, errLinked)
	}
	if isMount(at) {
		return election.Permanent(fmt.Errorf("%s is mounted by itself, so that those who use it elsewhere write into another log (-wal); "+
			"mount its directory", at))
	}
	return nil
}

var errLinked = errors.New("those who use another one write into another log (-wal); remove the other hard links, and copy it with \"vacuum into\"")

// isMount is networkfs.IsMount; a test replaces it, because only root may mount.
var isMount = networkfs.IsMount

// linksMax bounds the symbolic links that are followed to a file that does not exist yet.
const linksMax = 40

// located returns the path of a file with symbolic links resolved, even if the file does
// not exist yet.
func located(path string) string {
	for range linksMax {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			return at
		}
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// refuseNetwork returns an error for a database on a network file system.
func refuseNetwork(path, at string) error {
	kind, err := networkfs.Shared(at)
	if err != nil || kind == "" {
		return err
	}
	return election.Permanent(fmt.Errorf("%s is on a network file system (%s), whose locks do not hold; "+
		"use a file on a local disk, or a store such as zk://host:2181", path, kind))
}

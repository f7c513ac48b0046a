package fence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// inFile is a number in a file.
func inFile(f *fence.File) fencetest.Resource {
	number := func(data []byte) int {
		n, _ := strconv.Atoi(string(data))
		return n
	}
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (value int, err error) {
			_, err = f.Update(ctx, token, func(old []byte) ([]byte, error) {
				value = number(old)
				return old, nil
			})
			return value, err
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			_, err := f.Update(ctx, token, func([]byte) ([]byte, error) { return []byte(strconv.Itoa(value)), nil })
			return err
		},
		Read: func(context.Context) (int, error) {
			content, err := f.Read()
			return number(content.Data), err
		},
	}
}

func TestFencedFileLosesNoUpdate(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource {
		return inFile(fence.NewFile(filepath.Join(t.TempDir(), "number")))
	})
}

func TestWriteNeedsTheVersionThatWasRead(t *testing.T) {
	f, ctx := fence.NewFile(filepath.Join(t.TempDir(), "f")), awaittest.Within(t)
	if c, err := f.Read(); err != nil || c.Version != 0 || c.Data != nil {
		t.Fatalf("before the first write: %+v, %v", c, err)
	}
	if _, err := f.Write(ctx, []byte("x"), 1, 5); !errors.Is(err, fence.ErrChanged) {
		t.Errorf("a version that is not there: %v", err)
	}
	v, err := f.Write(ctx, []byte("one\ntwo"), 0, 5)
	if err != nil || v != 1 {
		t.Fatalf("version %d, %v", v, err)
	}
	if _, err := f.Write(ctx, []byte("x"), 0, 5); !errors.Is(err, fence.ErrChanged) {
		t.Errorf("an old version: %v", err)
	}
	if _, err := f.Write(ctx, []byte("x"), 1, 4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an old token: %v", err)
	}
	own := errors.New("mine")
	if _, err := f.Update(ctx, 5, func([]byte) ([]byte, error) { return nil, own }); !errors.Is(err, own) {
		t.Errorf("an error of change: %v", err)
	}
	c, err := f.Read()
	if err != nil || string(c.Data) != "one\ntwo" || c.Version != 1 || c.Token != 5 {
		t.Errorf("%+v, %v", c, err)
	}
	if v, err := f.Write(ctx, nil, 1, 6); err != nil || v != 2 {
		t.Errorf("version %d, %v", v, err)
	}
}

func TestWriteThatWasBrokenOffLeavesTheOldFile(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "f"), awaittest.Within(t)
	f := fence.NewFile(path)
	if _, err := f.Write(ctx, []byte("whole"), 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("conclave file 1 version=2 tok"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Read(); err != nil || string(c.Data) != "whole" {
		t.Fatalf("%+v, %v", c, err)
	}
	if v, err := f.Write(ctx, []byte("next"), 1, 1); err != nil || v != 2 {
		t.Errorf("version %d, %v", v, err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "f"), awaittest.Within(t)
	f := fence.NewFile(path)
	if _, err := f.Write(ctx, []byte("data"), 0, 1); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		for _, text := range [][]byte{damaged, whole[:i]} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := f.Read(); err == nil {
				t.Errorf("taken: %q as %+v", text, c)
			}
			if _, err := f.Update(ctx, 9, func(old []byte) ([]byte, error) { return old, nil }); err == nil {
				t.Errorf("overwritten: %q", text)
			}
		}
	}
}

// A leader was frozen until its time was over, and no later leader has come yet.
func TestNothingIsDoneAfterTheEndOfTheContext(t *testing.T) {
	f := fence.NewFile(filepath.Join(t.TempDir(), "f"))
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lost")
	cancel(lost)
	if _, err := f.Update(ctx, 5, func([]byte) ([]byte, error) { return []byte("late"), nil }); !errors.Is(err, lost) {
		t.Errorf("Update: %v", err)
	}
	if _, err := f.Write(ctx, []byte("late"), 0, 5); !errors.Is(err, lost) {
		t.Errorf("Write: %v", err)
	}
	if c, err := f.Read(); err != nil || c.Version != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	err := fence.New().Do(ctx, "r", 5, func(context.Context) error { t.Error("it acts"); return nil })
	if !errors.Is(err, lost) {
		t.Errorf("Do: %v", err)
	}
}

func TestLockIsAwaitedUntilTheContextEnds(t *testing.T) {
	f := fence.NewFile(filepath.Join(t.TempDir(), "f"))
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	_, err := f.Update(awaittest.Within(t), 1, func([]byte) ([]byte, error) {
		cancel()
		_, err := f.Update(ctx, 1, func([]byte) ([]byte, error) { return nil, nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("inside: %v", err)
		}
		return []byte("done"), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// writerEnv makes the test binary a writer of the file with this path. Each line on its standard
// input is a token; the writer adds one to the file with it, and then answers.
const writerEnv = "CONCLAVE_FENCE_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		write(path)
		return
	}
	os.Exit(m.Run())
}

func write(path string) {
	f := fence.NewFile(path)
	for {
		var token election.Token
		if _, err := fmt.Scanln(&token); err != nil {
			return
		}
		_, err := f.Update(context.Background(), token, func(old []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(old))
			return []byte(strconv.Itoa(n + 1)), nil
		})
		switch {
		case err == nil:
			fmt.Println("written")
		case errors.Is(err, fence.ErrStale):
			fmt.Println("stale")
		default:
			fmt.Println(err)
		}
	}
}

// Processes write at the same time, and some of them are killed in the middle: what was
// acknowledged is there, and no write with an older token comes after one with a newer token.
func TestProcessesThatWriteAtOnceLoseNothing(t *testing.T) {
	const writers, rounds = 4, 12
	path := filepath.Join(t.TempDir(), "f")
	var group sync.WaitGroup
	var mu sync.Mutex
	acknowledged, unknown := 0, 0
	for i := range writers {
		group.Go(func() {
			for round := range rounds {
				// A process that is killed after its first answer may be anywhere in its second
				// write.
				token := round + 1
				c := exec.Command(os.Args[0])
				c.Env = append(os.Environ(), writerEnv+"="+path)
				in, errIn := c.StdinPipe()
				out, errOut := c.StdoutPipe()
				end, err := childtest.Begin(c)
				if err := errors.Join(errIn, errOut, err); err != nil {
					t.Error(err)
					return
				}
				var answer string
				_, _ = fmt.Fprintln(in, token)
				_, err = fmt.Fscan(out, &answer)
				first := answer
				killed := i == 0
				if killed {
					_, _ = fmt.Fprintln(in, token)
					_ = c.Process.Kill()
				}
				_ = in.Close()
				rest, _ := io.ReadAll(out)
				_ = c.Wait()
				end()
				mu.Lock()
				if err != nil || first != "written" && first != "stale" {
					t.Errorf("writer %d, token %d: %q, %v", i, token, first, err)
				}
				acknowledged += strings.Count(first+string(rest), "written")
				if killed && !strings.Contains(string(rest), "n") { // no answer
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	c, err := fence.NewFile(path).Read()
	n, errNumber := strconv.Atoi(string(c.Data))
	if err != nil || errNumber != nil || n < acknowledged || n > acknowledged+unknown {
		t.Errorf("%d (%v, %v), acknowledged %d and perhaps %d more", n, err, errNumber, acknowledged, unknown)
	}
	if int(c.Version) != n || c.Token != rounds {
		t.Errorf("version %d, token %d after %d writes", c.Version, c.Token, n)
	}
}

// TestFileIsOneByAllItsNames: one leader knows the file by a symbolic link.
func TestFileIsOneByAllItsNames(t *testing.T) {
	target, link := filepath.Join(t.TempDir(), "conf"), filepath.Join(t.TempDir(), "conf")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{link, target, link} { // the first write creates it
		token := election.Token(33 + i)
		if _, err := fence.NewFile(path).Update(t.Context(), token, func([]byte) ([]byte, error) { return []byte(path), nil }); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{target, link} {
			if c, err := fence.NewFile(other).Read(); err != nil || c.Token != token || string(c.Data) != path {
				t.Errorf("%s has %q by token %d and not %d, %v", other, c.Data, c.Token, token, err)
			}
			if _, err := fence.NewFile(other).Write(t.Context(), nil, 0, token-1); !errors.Is(err, fence.ErrStale) {
				t.Errorf("token %d after %d: %v", token-1, token, err)
			}
		}
	}
}

// TestFileKeepsItsMode: an operator lets others read the file.
func TestFileKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conf")
	f := fence.NewFile(path)
	for version, mode := range []os.FileMode{0o644, 0o600} {
		if _, err := f.Write(t.Context(), nil, fence.Version(version), 1); err != nil {
			t.Fatal(err)
		}
		if version > 0 {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 && runtime.GOOS != "windows" {
				t.Errorf("its mode is %v, %v", info.Mode(), err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// A cleaner that removes PATH.lock while somebody writes does not let an older token overwrite a
// newer one.
func TestRemovedLockLetsNobodyOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	put := func(token election.Token, text string, meanwhile func()) error {
		_, err := fence.NewFile(path).Update(t.Context(), token, func(old []byte) ([]byte, error) {
			meanwhile()
			return append(old, text...), nil
		})
		return err
	}
	nothing := func() {}
	if err := put(5, "5", nothing); err != nil {
		t.Fatal(err)
	}
	err := put(5, "late 5", func() {
		if err := os.Remove(path + ".lock"); err != nil {
			t.Error(err)
		}
		if err := put(6, "6", nothing); err != nil {
			t.Error(err)
		}
	})
	if c, errRead := fence.NewFile(path).Read(); err == nil || errRead != nil || c.Token != 6 || string(c.Data) != "56" {
		t.Errorf("the late one got %v; the file has token %d, %q, %v", err, c.Token, c.Data, errRead)
	}
	if err := put(7, "7", nothing); err != nil {
		t.Error(err)
	}
}

//go:build linux

package stores

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// echo is a store that consists of cat and a file: enough to observe what happens to a
// server.
func echo(dir string, answers func(context.Context) error) *process {
	return &process{name: "echo", dir: dir, args: []string{"sh", "-c", "echo begun; exec sleep 1000"}, answers: answers}
}

// begun returns a check that passes if one more process has written its start than the
// check has passed before.
func begun(dir string) func(context.Context) error {
	expected := 1
	return func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(dir, "echo.log"))
		if err == nil && strings.Count(string(text), "begun") < expected {
			return errors.New("not begun")
		}
		expected++
		return err
	}
}

func TestServerIsKilledAndStartedAgain(t *testing.T) {
	dir := t.TempDir()
	s := &Server{Name: "echo"}
	p := echo(dir, begun(dir))
	if err := s.add(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	first := p.command.Process.Pid
	s.Pause()
	s.Resume()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.command.Process.Pid == first {
		t.Error("the same process runs after a restart")
	}
	if log := s.LogTail(100); strings.Count(log, "begun") != 2 {
		t.Errorf("log %q", log)
	}
	s.Stop()
	s.Stop()
	select {
	case <-p.ended:
	default:
		t.Error("the process runs after Stop")
	}
}

func TestServerThatEndsIsAnErrorWithItsLog(t *testing.T) {
	p := &process{name: "bad", dir: t.TempDir(), args: []string{"sh", "-c", "echo no port; exit 3"},
		answers: func(context.Context) error { return errors.New("nobody listens") }}
	err := (&Server{Name: "bad"}).add(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no port") {
		t.Errorf("error %v", err)
	}
}

func TestProgramThatIsMissingIsAnError(t *testing.T) {
	p := &process{name: "none", dir: t.TempDir(), args: []string{"/nonexistent/store"}}
	if err := (&Server{Name: "none"}).add(t.Context(), p); err == nil {
		t.Error("no error")
	}
}

func TestStoreIsBuiltOnceUnlessItFails(t *testing.T) {
	t.Setenv(CacheVariable, t.TempDir())
	calls, failing := 0, errors.New("no network")
	r := recipe{name: "once", version: "1", build: func(context.Context, string) error {
		calls++
		return failing
	}}
	cache, err := r.cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.buildOnce(t.Context(), cache); !errors.Is(err, failing) {
		t.Fatalf("error %v", err)
	}
	failing = nil
	for range 3 {
		if err := r.buildOnce(t.Context(), cache); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 {
		t.Errorf("built %d times", calls)
	}
	r.fresh = true
	if err := r.buildOnce(t.Context(), cache); err != nil || calls != 3 {
		t.Errorf("what is always built again was built %d times, %v", calls, err)
	}
}

func TestUnknownStoreIsAnErrorThatNamesTheOthers(t *testing.T) {
	_, err := Launch(t.Context(), "oracle", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "zookeeper") {
		t.Errorf("error %v", err)
	}
}

func TestConclaveStartsAndOutlivesAKill(t *testing.T) {
	s := Start(t, "conclave")
	for range 2 {
		if answer, err := servers.FourLetterWord(s.Addr, "ruok"); err != nil || answer != "imok" {
			t.Fatalf("answer %q, %v", answer, err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinkIsCutAndHealedInOneDirection(t *testing.T) {
	s := Start(t, "conclave")
	link, err := s.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	answers := make(chan string, 1)
	link.CutReplies()
	if pieces, _ := link.Replies(); pieces != 0 {
		t.Errorf("%d replies before anything was asked", pieces)
	}
	go func() {
		answer, err := servers.FourLetterWord(link.Addr, "ruok")
		if err != nil {
			answer = err.Error()
		}
		answers <- answer
	}()
	if direct, err := servers.FourLetterWord(s.Addr, "ruok"); err != nil || direct != "imok" {
		t.Fatalf("direct answer %q, %v", direct, err)
	}
	select {
	case answer := <-answers:
		t.Fatalf("answer %q over a cut link", answer)
	default:
	}
	link.Heal()
	if answer := <-answers; answer != "imok" {
		t.Errorf("answer %q after healing", answer)
	}
	if _, bytes := link.Replies(); bytes != int64(len("imok")) {
		t.Errorf("%d bytes of replies were counted", bytes)
	}
}

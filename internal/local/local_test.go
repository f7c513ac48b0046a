package local

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/server"
)

func begin(t *testing.T, servers, observers int) *Ensemble {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime = 200*time.Millisecond, time.Second
	base.PreallocBytes = 1 << 20
	e, err := Start(Options{Servers: servers, Observers: observers, Base: base, Logger: func(id int) *slog.Logger {
		if os.Getenv("LOCAL_LOG") == "" {
			return slog.New(slog.DiscardHandler)
		}
		return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("server", id)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// lead waits for a leader.
func lead(t *testing.T, e *Ensemble) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := e.Await(ctx, func() bool { return e.Leader() != 0 }); err != nil {
		t.Fatal("nobody leads")
	}
	return e.Leader()
}

func TestThreeServersElectServeAndSurviveTheirLeader(t *testing.T) {
	e := begin(t, 3, 0)
	start := time.Now()
	first := lead(t, e)
	t.Logf("server %d leads after %v", first, time.Since(start))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New(strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 20 {
		if _, _, err := c.Create(ctx, fmt.Sprintf("/n%d", i), []byte("x"), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Kill(first); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	second := lead(t, e)
	t.Logf("server %d leads %v after the end of server %d", second, time.Since(start), first)
	if err := e.Start(first); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := c.Get(ctx, fmt.Sprintf("/n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

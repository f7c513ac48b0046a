// Package servertest is for tests: it runs one standalone server in the test's own process.
//
// Tests may change its configuration, and get its address for clients once it serves them.
// The server stores its data on a memory disk unless a change says otherwise, logs nothing,
// and ends with the test. It may have a slow disk, and links to it that a test cuts. For
// ensembles there is package inprocess.
package servertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Start runs a server until the test ends.
func Start(t testing.TB, changes ...func(*server.Config)) (addr string) {
	t.Helper()
	addr, _ = StartUntil(t, changes...)
	return addr
}

// StartUntil runs a server until the test ends or stop is called; stop returns when the
// server has ended.
func StartUntil(t testing.TB, changes ...func(*server.Config)) (addr string, stop func()) {
	t.Helper()
	config := server.Default()
	config.FS, config.DataDir, config.ClientAddr = vfs.NewMem(), "data", "127.0.0.1:0"
	config.TickTime, config.PreallocBytes = 500*time.Millisecond, 1<<20
	config.Logger = slog.New(slog.DiscardHandler)
	for _, change := range changes {
		change(&config)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	awaittest.Until(t, "the server serves", func() bool { return s.Serves() || len(ended) > 0 })
	return s.Addr().String(), stop
}

package client

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// serve runs a Conclave server on a memory disk until the test ends, and
// returns its address.
func serve(t *testing.T, fs vfs.FS) string {
	t.Helper()
	config := server.Default()
	config.FS, config.DataDir, config.ClientAddr = fs, "data", "127.0.0.1:0"
	config.TickTime, config.ExtendedTypes, config.PreallocBytes = 500*time.Millisecond, true, 1<<20
	config.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(config)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

func TestTheSuitePassesAgainstConclave(t *testing.T) {
	runSuite(t, serve(t, vfs.NewMem()))
}

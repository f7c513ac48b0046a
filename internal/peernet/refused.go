package peernet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/lobby"
)

// refused logs connections to a port that came to nothing, once a minute: who
// reaches the port could fill the disk otherwise. Any goroutine may call log.
type refused struct{ failures lobby.Failures }

// began is when the process began, as far as this package is concerned.
var began = time.Now()

func (r *refused) log(to *slog.Logger, level slog.Level, what string, socket net.Conn, err error) {
	if count, tell := r.failures.Note(time.Since(began).Milliseconds()); tell {
		to.Log(context.Background(), level, what, slog.Any("remote", socket.RemoteAddr()), slog.String("error", fmt.Sprintf("%.1000v", err)),
			slog.Int64("failed", count))
	}
}

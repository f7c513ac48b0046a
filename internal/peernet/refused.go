package peernet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"
)

// refused logs failed connections to a port. What fails is logged once a minute for each host,
// so that one that tries again and again does not hide another, and with at most refusedLinesMax
// lines a minute: otherwise anybody who reaches the port could fill the disk. Any goroutine may
// call log.
type refused struct {
	mu    sync.Mutex
	count int64
	told  map[string]time.Time // when a line was logged, by what has failed and the host
}

// refusedLinesMax is more than an ensemble has servers.
const refusedLinesMax = 32

func (r *refused) log(to *slog.Logger, level slog.Level, what string, socket net.Conn, err error) {
	if count, tell := r.note(what+" "+hostOf(socket), time.Now()); tell {
		to.Log(context.Background(), level, what, slog.Any("remote", socket.RemoteAddr()), slog.String("error", fmt.Sprintf("%.1000v", err)),
			slog.Int64("failed", count))
	}
}

// note counts a failure, and reports whether to log it.
func (r *refused) note(what string, now time.Time) (count int64, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	maps.DeleteFunc(r.told, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Minute })
	if _, told := r.told[what]; told || len(r.told) >= refusedLinesMax {
		return r.count, false
	}
	if r.told == nil {
		r.told = make(map[string]time.Time)
	}
	r.told[what] = now
	return r.count, true
}

package sqlite

import (
	"context"
	"database/sql"
	"testing"

	"github.com/conclave-project/conclave/election/record"
)

// BenchmarkPoll is one look of a candidate that waits.
func BenchmarkPoll(b *testing.B) {
	s := openStore(b, newURL(b))
	write(b, s, record.Record{Nonce: "n"}, "")
	for b.Loop() {
		var version string
		err := s.on(b.Context(), func(ctx context.Context, conn *sql.Conn) error {
			return conn.QueryRowContext(ctx, s.sql.version, "e").Scan(&version)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenewal is one write of a holder, in WAL mode.
func BenchmarkRenewal(b *testing.B) {
	s := openStore(b, newURL(b))
	version := write(b, s, record.Record{Nonce: "n"}, "")
	for heartbeat := uint64(0); b.Loop(); heartbeat++ {
		version = write(b, s, record.Record{Nonce: "n", Heartbeat: heartbeat}, version)
	}
}

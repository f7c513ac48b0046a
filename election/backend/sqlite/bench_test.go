package sqlite

import (
	"context"
	"database/sql"
	"testing"

	"github.com/conclave-project/conclave/election/record"
)

// BenchmarkPoll is one look of a waiting candidate.
func BenchmarkPoll(b *testing.B) {
	s := openStore(b, newURL(b))
	write(b, s, record.Record{Nonce: "n"}, "")
	poll(b, s)
}

// BenchmarkPollOfALooker is one look through a connection that has not written anything yet.
func BenchmarkPollOfALooker(b *testing.B) {
	url := newURL(b)
	write(b, openStore(b, url), record.Record{Nonce: "n"}, "")
	poll(b, storeOn(b, openDB(b, url, "")))
}

func poll(b *testing.B, s *store) {
	for b.Loop() {
		err := s.on(b.Context(), func(ctx context.Context, conn *sql.Conn, f file) error {
			return s.through(ctx, conn, f, func(by *statements) (err error) {
				_, err = s.version(ctx, conn, by, "e")
				return err
			})
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

package postgres

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// TestServerThatWasDownIsListenedToLater: the hub tries again only after an error.
func TestServerThatWasDownIsListenedToLater(t *testing.T) {
	db, err := sql.Open("pgx", "postgres://u@127.0.0.1:1/x?sslmode=disable&connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := newStore(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.listen(t.Context(), func() {}, nil); err == nil { // else the test never ends
		t.Error("nobody listens on this port")
	}
}

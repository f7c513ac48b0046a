package command

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/cmd/conclave/internal/autobackup"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// readyBackups makes sure that this program can open the place of a server's backups, and
// that its URL is valid; the store need not answer yet. It is called before anything is
// held.
func readyBackups(s *autobackup.Settings) error {
	if s.Place == "" || !s.InStore() {
		return nil
	}
	if err := readyPlace(s.Place); err != nil {
		return err
	}
	scheme := placeURL(s.Place)
	if _, err := linkedPlaces[scheme](context.Background(), s.Place); err != nil {
		return cli.Usage("write for example "+placeExamples[scheme], "conclave.backupPlace %s: %w", redact.URL(s.Place), err)
	}
	return nil
}

// openBackups returns the runner that takes a server's backups, nil if it takes none, and
// makes the server report on them.
func openBackups(s *autobackup.Settings, cfg *server.Config) *autobackup.Runner {
	if s.Place == "" {
		return nil
	}
	runner := autobackup.New(*s, placeOpener(s.Place), cfg.Clock, cfg.Logger)
	cfg.Backups = runner.Report
	return runner
}

// placeOpener returns a function that opens a place for one backup. The client of a store
// is created only once.
func placeOpener(place string) autobackup.Open {
	if scheme := placeURL(place); scheme != "" {
		var client backup.Place
		return func(ctx context.Context) (backup.Place, func(), error) {
			var err error
			if client == nil {
				client, err = linkedPlaces[scheme](context.WithoutCancel(ctx), place)
			}
			return client, func() {}, err
		}
	}
	return func(context.Context) (backup.Place, func(), error) {
		dir, err := backup.LockDir(osfs.New(), place)
		if err != nil {
			return nil, nil, fmt.Errorf("backup to %s: %w", place, err)
		}
		return dir, func() { _ = dir.Close() }, nil
	}
}

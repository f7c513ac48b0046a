package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/zk"
)

// parseMoment parses a zxid (0x1b0) or a time (2026-11-24T10:00:00Z); "" means the end.
func parseMoment(text string) (backup.Moment, error) {
	if text == "" {
		return backup.Moment{}, nil
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && n > 0 {
		return backup.Moment{Zxid: zk.Zxid(n)}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return backup.Moment{Time: at}, nil
		}
	}
	return backup.Moment{}, cli.Usage("write a zxid, as 0x1b0, or a time with its zone, as 2026-11-24T10:00:00Z", "%q is not a moment", text)
}

// loadMoment loads the state of a backup at a moment.
func loadMoment(ctx context.Context, keys *backupKeys, dir string, m backup.Moment) (*backup.Backup, *backup.State, error) {
	b, err := readBackup(ctx, keys, dir)
	if err != nil {
		return nil, nil, err
	}
	dir = redact.URL(dir)
	state, err := b.Load(ctx, m)
	if err == nil && state.Mismatches > 0 {
		err = &vfs.Corruption{File: dir, Expected: "the digest that the leader noted after " + state.FirstMismatch.String(), Found: "another one",
			Remedy: "restore a moment before it, or take another backup"}
	}
	if err == nil {
		return b, state, nil
	}
	if told := explainKeys(err); told != nil {
		return nil, nil, told
	}
	failed := &cli.Error{Err: fmt.Errorf("load %s of %s: %w", m, dir, err), Exit: cli.ExitFailed, Hint: "`conclave backup verify` reads all of it"}
	if errors.Is(err, backup.ErrOutside) {
		failed.Exit, failed.Hint = cli.ExitNotFound, "`conclave backup list` shows which moments it has; to get its last state, give its last zxid or time"
	} else if vfs.IsCorruption(err) {
		failed.Exit = cli.ExitDamaged
	}
	return nil, nil, failed
}

// loadTree loads the tree that an argument names: BACKUP, BACKUP@MOMENT, a data directory,
// or a snapshot. It writes to warnings what was omitted.
func loadTree(ctx context.Context, settings *fileSettings, keys *backupKeys, argument string, warnings io.Writer) (*tree.Tree, error) {
	dir, when := cutMoment(argument)
	m, err := parseMoment(when)
	if err != nil {
		return nil, err
	}
	b, err := readBackup(ctx, keys, dir)
	if err != nil && placeURL(dir) != "" {
		return nil, err
	}
	if err == nil && len(b.Ranges()) > 0 {
		_, state, err := loadMoment(ctx, keys, dir, m)
		if err != nil {
			return nil, err
		}
		return state.Tree(), nil
	}
	if when != "" {
		return nil, cli.NotFound(fmt.Errorf("%s holds no backup", dir), "only a backup has moments; a data directory or a snapshot has one state")
	}
	cfg, err := settings.read()
	if err != nil {
		return nil, err
	}
	if file, ok := snap.ParseName(filepath.Base(dir)); ok && !isDir(dir) {
		return loadSnapshotTree(&cfg, filepath.Dir(dir), file)
	}
	foreign := settings.moveTo(&cfg, dir)
	if foreign != "" {
		fmt.Fprintf(warnings, "conclave: %s: %s\n", dir, foreign)
	}
	return loadDirectoryTree(&cfg)
}

// cutMoment cuts the moment, "" for none, from the end of an argument. The names of
// directories and places may also contain an @.
func cutMoment(argument string) (place, moment string) {
	at := strings.LastIndexByte(argument, '@')
	if at < 0 {
		return argument, ""
	}
	place, moment = argument[:at], argument[at+1:]
	if _, err := parseMoment(moment); err == nil {
		return place, moment
	}
	if _, err := os.Stat(argument); err == nil || placeURL(argument) != "" {
		return argument, ""
	}
	return place, moment
}

func loadSnapshotTree(cfg *server.Config, dir string, file snap.File) (*tree.Tree, error) {
	target := replicadisk.NewTarget(replicadisk.Options{ExtendedTypes: true})
	if _, err := snap.LoadFile(osfs.New(), dir, file, snap.Options{BufferBytesMax: cfg.ReadBytesMax()}, target); err != nil {
		return nil, unloadable(err)
	}
	target.Finish(file.Zxid)
	return target.Tree(), nil
}

// loadDirectoryTree loads the state with which a start would begin.
func loadDirectoryTree(cfg *server.Config) (*tree.Tree, error) {
	options := datadir.Options{DataDir: cfg.DataDir, LogDir: cfg.DataLogDir, BufferBytesMax: cfg.ReadBytesMax()}
	options.Log.PayloadBytesMax = cfg.ReadBytesMax()
	var last *replicadisk.Target
	report, err := datadir.Check(osfs.New(), options, func() datadir.Target {
		last = replicadisk.NewTarget(replicadisk.Options{ExtendedTypes: true})
		return last
	})
	if err != nil {
		return nil, cli.NotFound(err, "name a backup, a data directory (which holds version-2) or a snapshot.*")
	}
	if report.Refusal != "" || last == nil {
		return nil, unloadable(errors.New(report.Refusal))
	}
	if report.Fresh {
		return nil, cli.NotFound(fmt.Errorf("%s holds no data", cfg.DataDir), "name a backup, a data directory (which holds version-2) or a snapshot.*")
	}
	return last.Tree(), nil
}

func unloadable(err error) error {
	return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "read the whole directory with `conclave check`; give --max-buffer if jute.maxbuffer is set"}
}

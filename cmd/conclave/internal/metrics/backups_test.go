package metrics

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
)

// A server that takes backups has metrics about them. Only the server whose turn it is
// reports the age of the last one.
func TestBackupsHaveFiguresWhereTheyAreTaken(t *testing.T) {
	const age = "conclave_backup_age_seconds"
	for _, report := range []server.BackupReport{
		{},
		{On: true, Every: time.Minute, Taken: 3, Failed: 2, Gaps: 1, Bytes: 99},
		{On: true, Due: true, Age: 1500 * time.Millisecond, Every: time.Minute, Taken: 3, Failed: 2, Gaps: 1, Bytes: 99},
	} {
		s := told{dir: t.TempDir()}
		s.status.Backups = report
		port := httptest.NewServer(Handler(New(&s, "1"), false, slog.New(slog.DiscardHandler)))
		defer port.Close()
		_, _, got := scrape(t, port)
		for key, want := range map[string]float64{
			"conclave_backups_total": 3, "conclave_backup_failures_total": 2, "conclave_backup_gaps_total": 1, "conclave_backup_bytes_total": 99,
			"conclave_backup_interval_seconds": 60,
		} {
			if text, there := got[key]; there != report.On || there && value(t, text) != want {
				t.Errorf("%+v: %s is %q", report, key, text)
			}
		}
		if text, there := got[age]; there != report.Due || there && value(t, text) != 1.5 {
			t.Errorf("%+v: %s is %q", report, age, text)
		}
	}
}

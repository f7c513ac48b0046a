package admin

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
)

// mntr reports backups if the server takes any, and the age of the last one if it is this
// server's turn.
func TestMntrTellsOfBackups(t *testing.T) {
	for _, due := range []bool{false, true} {
		report := server.BackupReport{On: true, Due: due, Taken: 3, Failed: 2, Gaps: 1, Age: 1500 * time.Millisecond}
		addr := servertest.Start(t, func(c *server.Config) {
			c.FourLetterWords, c.Commands, c.Backups = []string{"mntr"}, Commands{Version: "1.2.3"}, func() server.BackupReport { return report }
		})
		got := figuresOf(t, addr)
		if got["zk_backups_taken"] != "3" || got["zk_backups_failed"] != "2" || got["zk_backup_gaps"] != "1" || (got["zk_backup_age"] == "1500") != due {
			t.Error(due, got)
		}
	}
	if _, there := figuresOf(t, servertest.Start(t, func(c *server.Config) { c.FourLetterWords, c.Commands = []string{"mntr"}, Commands{} }))["zk_backups_taken"]; there {
		t.Error("a server that takes none tells of some")
	}
}

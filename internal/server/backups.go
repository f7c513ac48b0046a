package server

import (
	"time"

	"github.com/conclave-project/conclave/zk"
)

// BackupReport is the result so far of the backups that a server takes by itself, for Status.
// The server only passes it on: Config.Backups provides it.
type BackupReport struct {
	On     bool // backups are configured
	Due    bool // this server has to take them, as long as it has its role
	Every  time.Duration
	Taken  int64 // successful takes, including those that found nothing new
	Failed int64
	Gaps   int64 // takes before which the backup had lost states
	Bytes  int64 // as stored
	Last   zk.Zxid
	Age    time.Duration // since the last success, or since backups became due; 0 while they are not due
}

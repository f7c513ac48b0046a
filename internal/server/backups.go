package server

import (
	"time"

	"github.com/conclave-project/conclave/zk"
)

// BackupReport is what the backups that a server takes by itself have come to since the
// start, for Status. The server has no other part in them: Config.Backups brings it.
type BackupReport struct {
	On     bool // some are to be taken
	Due    bool // by this server, as long as it has its role
	Every  time.Duration
	Taken  int64 // takes that have succeeded, those that found nothing new among them
	Failed int64
	Gaps   int64 // takes before which states were lost to the backup
	Bytes  int64 // as stored
	Last   zk.Zxid
	Age    time.Duration // since the last success, or since they are due; 0 while they are not
}

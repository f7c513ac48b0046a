package zoocfg

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/autobackup"
)

const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

func TestBackupsOfAServer(t *testing.T) {
	c, err := read(t, backupPlace+"=/backup\nconclave.backupEvery=90s\nconclave.backupSnapshotEvery=0\nconclave.backupKeepFor=30d\n"+
		"conclave.backupBy=leader\nconclave.backupBytesPerSecond=0\nconclave.backupFreeBytesMin=5\nconclave.backupRecipients="+recipient+", "+recipient)
	if err != nil || len(c.Remarks) > 0 {
		t.Fatal(c.Remarks, err)
	}
	b := c.Backup
	if b.Place != "/backup" || b.Every != 90*time.Second || b.SnapshotEvery != 0 || b.KeepFor != 720*time.Hour || b.By != autobackup.ByLeader ||
		b.BytesPerSecond != 0 || b.FreeBytesMin != 5 || len(b.Recipients) != 2 || !b.LeaderAlone() {
		t.Errorf("%+v", b)
	}
	for place, leader := range map[string]bool{"/backup": false, "s3://b/p": true} {
		if c, err := read(t, backupPlace+"="+place); err != nil || c.Backup.LeaderAlone() != leader || c.Backup.Every != 10*time.Minute {
			t.Errorf("%+v, %v", c.Backup, err)
		}
	}
	if c, err = read(t, "conclave.backupEvery=5m"); err != nil || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "has no effect: conclave.backupPlace is not set") {
		t.Error(c.Remarks, err)
	}
}

func TestBackupsThatCannotBeAreRefused(t *testing.T) {
	for lines, want := range map[string]string{
		backupPlace + "=backup":                                       "backup is relative",
		backupPlace + "=/data/backup":                                 "is in /data",
		backupPlace + "=/data":                                        "is in /data",
		backupPlace + "=/log/version-2\ndataLogDir=/log":              "is in /log",
		backupPlace + "=/data/myid/backup":                            "is in /data",
		backupPlace + "=/b\nconclave.backupEvery=10":                  `"10" is not a number and one of ms s m h d`,
		backupPlace + "=/b\nconclave.backupEvery=0":                   "shorter than 1s",
		backupPlace + "=/b\nconclave.backupEvery=999ms":               "shorter than 1s",
		backupPlace + "=/b\nconclave.backupKeepFor=-1h":               "is not a number and one of",
		backupPlace + "=/b\nconclave.backupBy=follower":               `"follower" is not leader or each`,
		backupPlace + "=/b\nconclave.backupRecipients=age1x":          `"age1x" is not an age recipient`,
		backupPlace + "=/b\nconclave.backupRecipientsFile=/not/there": "conclave.backupRecipientsFile: is refused",
		backupPlace + "=/b\nconclave.backupBytesPerSecond=fast":       "is not a whole number",
		backupPlace + "=/b\nconclave.backupPlaces=/c":                 "did you mean",
	} {
		if _, err := read(t, lines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
}

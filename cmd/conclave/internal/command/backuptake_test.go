package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// TestTakeAsksTheServerOfTheDirectoryAlone has a zoo.cfg without a port for clients in clear text,
// so it does not say where its server can be asked what is committed. Another server, which the
// environment names or which is on this machine, does not know.
func TestTakeAsksTheServerOfTheDirectoryAlone(t *testing.T) {
	t.Setenv(cli.StoreVariable, "zk://127.0.0.1:1")
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	text := "dataDir=/data\nsecureClientPort=2281\nssl.keyStore.location=/key.pem\nssl.clientAuth=none\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &backupTaking{settings: fileSettings{config: file}}
	_, _, err := v.source()
	var told *cli.Error
	if !errors.As(err, &told) || told.Exit != cli.ExitUsage || !strings.Contains(told.Hint, "--server zk+tls://") {
		t.Errorf("it asks another one: %v", err)
	}
	v.server = "127.0.0.1:2282"
	if _, unlock, err := v.source(); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
}

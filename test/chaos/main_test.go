//go:build linux && chaos

package chaos

import (
	"os"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

func TestMain(m *testing.M) {
	servers.Supervised()
	servers.OwnMounts()
	os.Exit(m.Run())
}

// diskBytes is the size of a server's disk.
const diskBytes = 1 << 30

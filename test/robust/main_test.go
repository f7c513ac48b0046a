//go:build linux && robust

package robust

import (
	"os"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

func TestMain(m *testing.M) {
	servers.OwnMounts()
	os.Exit(m.Run())
}

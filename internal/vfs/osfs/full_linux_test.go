package osfs

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

func TestFullDeviceIsNoSpace(t *testing.T) {
	f, err := New().OpenReadWrite("/dev/full")
	must(t, err)
	defer f.Close()
	if _, err := f.Write([]byte("x")); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("write to a full device: %v", err)
	}
}

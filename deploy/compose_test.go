//go:build packages

package deploy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestComposeCommandsMakeAnEnsemble runs the commands of the services in compose.yaml with the
// image's program, each on an address of its own, because there is no engine here that could run
// the file.
func TestComposeCommandsMakeAnEnsemble(t *testing.T) {
	program := imageProgram(t, "usr/bin/conclave")
	names := &nameServer{names: map[string]net.IP{}}
	for i := range 3 {
		names.set(fmt.Sprintf("conclave-%d", i), net.IPv4(127, 77, 0, byte(1+i)))
	}
	names.start(t)
	var logs [3]awaittest.Log
	for i, command := range composeCommands(t) {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		args := strings.Split(strings.Replace(strings.Join(command, "\n"), "=/data", "="+data, 1), "\n")
		c := exec.Command(program, append(args, fmt.Sprintf("--address=127.77.0.%d", 1+i), "-DquorumListenOnAllIPs=false")...)
		c.Stderr = &logs[i]
		childtest.Start(t, c)
	}
	t.Cleanup(func() {
		for i := range logs {
			if t.Failed() {
				t.Log(logs[i].String())
			}
		}
	})
	var out []byte
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
	awaittest.Until(t, "three servers serve, one of them leads", func() (served bool) {
		var err error
		out, err = exec.Command(program, "status", "--server", "conclave-0:2181").CombinedOutput()
		return err == nil && strings.Count(string(out), " follower ") == 2 && strings.Contains(string(out), " leader ")
	})
}

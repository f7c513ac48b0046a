//go:build conformance

package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// scenario is what two hosts go through, each played by a copy of the unit. It
// runs in its own namespaces under its own systemd, which ends with it.
const scenario = `set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
export XDG_RUNTIME_DIR=/run/user/0 XDG_CONFIG_HOME="$PWD/config" HOME="$PWD"
/lib/systemd/systemd --user --log-target=console > systemd.log 2>&1 &

# await COMMAND...: returns when it succeeds, fails after a minute
await() {
	for turn in $(seq 600); do
		if "$@" > /dev/null 2>&1; then return 0; fi
		sleep 0.1
	done
	echo "waited in vain: $*"
	systemctl --user status one two --no-pager || true
	exit 1
}
begun() { [ "$(grep -c "^begin $1 " log)" -ge "$2" ]; }
property() { [ "$(systemctl --user show -P "$2" "$1")" = "$3" ] || { echo "$1: $2 is not $3"; exit 1; }; }

await systemctl --user list-units
systemctl --user start one
await begun one 1
systemctl --user start two
systemctl --user stop one      # in good order: the other one leads
property one Result success
await begun two 1
systemctl --user start one
systemctl --user kill --kill-whom=main --signal=KILL two
await begun one 2              # the killed one is started again, and stands by
await systemctl --user is-active two
property two NRestarts 1
systemctl --user stop two one  # one standing by, one leading
property one Result success
property two Result success
property one TasksCurrent '[not set]'
! pgrep -f 'sh .*/worker$' || { echo "a worker is left"; exit 1; }
`

func TestUnitRunsTheWorkerOnOneHost(t *testing.T) {
	binary, err := servers.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unit, err := os.ReadFile("systemd/billing.service")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	for _, name := range []string{"one", "two"} {
		environment := filepath.Join(dir, name+".env")
		text := strings.NewReplacer("/usr/bin/conclave", binary, "/opt/billing/worker", writeWorker(t, log),
			"/etc/conclave-run/billing.env", environment,
			"PrivateTmp=yes", "PrivateTmp=no"). // the test's files are in /tmp
			Replace(string(unit))
		write(t, environment, "POD_NAME="+name+"\nCONCLAVE_STORE=file://"+dir+"/elections\n")
		write(t, filepath.Join(dir, "config", "systemd", "user", name+".service"), text)
		// The file is named like the unit, so that it is checked as a unit.
		if out, err := exec.Command("systemd-analyze", "verify",
			filepath.Join(dir, "config", "systemd", "user", name+".service")).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify (Debian package systemd): %v\n%s", err, out)
		}
	}
	write(t, filepath.Join(dir, "scenario.sh"), scenario)
	command := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "scenario.sh")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		systemd, _ := os.ReadFile(filepath.Join(dir, "systemd.log"))
		t.Fatalf("%v (it takes root and Debian's packages systemd and procps)\n%s\n%s", err, out, bytes.TrimSpace(systemd))
	}
	checkTurns(t, log, "one", "two", "one")
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

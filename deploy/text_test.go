package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// composeCommands returns the commands of the services in compose.yaml.
func composeCommands(t *testing.T) (all [][]string) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile(`(?m)^    command:\n((?:    - .*\n)+)`).FindAllStringSubmatch(string(text), -1) {
		var command []string
		for line := range strings.Lines(block[1]) {
			command = append(command, strings.TrimSpace(strings.TrimPrefix(line, "    - ")))
		}
		all = append(all, command)
	}
	return all
}

// TestComposeServersAgree checks that each service in the file is a server in the list that all of
// them have, with a volume and a port of its own. Compose refuses a container that has both a
// read-only root and a file whose text is in compose.yaml.
func TestComposeServersAgree(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	find := func(expression string) (found []string) {
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		return found
	}
	want := []string{"conclave-0", "conclave-1", "conclave-2"}
	for what, got := range map[string][]string{
		"services": find(`(?m)^  (conclave-\d):$`), "numbers": find(`conclave\.myid=(conclave-\d)\n`), "lines": find(`(?m)server\.\d=(conclave-\d):2888:3888$`)[:3],
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", what, got)
		}
	}
	for i, pod := range find(`(?m)server\.(\d)=`) {
		if pod != string(rune('1'+i%3)) {
			t.Errorf("line %d is that of server %s", i+1, pod)
		}
	}
	commands := composeCommands(t)
	if len(commands) != 3 {
		t.Fatalf("%d commands", len(commands))
	}
	for i, command := range commands {
		same := strings.ReplaceAll(strings.Join(command, " "), "myid="+want[i], "myid="+want[0])
		if first := strings.Join(commands[0], " "); same != first {
			t.Errorf("server %d is started otherwise than server 1:\n%s\n%s", i+1, same, first)
		}
	}
	if strings.Contains(string(text), "read_only: true") && strings.Contains(string(text), "content:") {
		t.Error("Compose does not start this")
	}
	for _, unique := range [][]string{find(`127\.0\.0\.1:(\d+):2181`), find(`"(data-\d):/data"`)} {
		if slices.Sort(unique); len(slices.Compact(unique)) != 3 {
			t.Errorf("shared by two servers: %q", unique)
		}
	}
	if strings.Contains(string(text), "\t") {
		t.Error("YAML has no tabs")
	}
}

// TestUnitsAndManifestsGiveAServerTheSameTimeToEnd checks the unit, the manifests and compose.yaml.
func TestUnitsAndManifestsGiveAServerTheSameTimeToEnd(t *testing.T) {
	for file, want := range map[string]string{
		"systemd/conclave.service": "\nTimeoutStopSec=30\n", "kubernetes/conclave.yaml": "\n      terminationGracePeriodSeconds: 30\n",
		"compose.yaml": "\n  stop_grace_period: 30s\n",
	} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has not %q: %v", file, strings.TrimSpace(want), err)
		}
	}
}

// TestLeastUnitOnThePageIsAPartOfTheUnit checks that the minimal unit on the page has no line that
// is missing from the packages' unit, which is started in a test.
func TestLeastUnitOnThePageIsAPartOfTheUnit(t *testing.T) {
	page, err1 := os.ReadFile("../docs/operations.md")
	unit, err2 := os.ReadFile("systemd/conclave.service")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	found := regexp.MustCompile("(?s)```ini\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("the page has no unit")
	}
	for line := range strings.Lines(strings.ReplaceAll(string(found[1]), "/usr/local/bin/", "/usr/bin/")) {
		if !strings.Contains("\n"+string(unit), "\n"+line) {
			t.Errorf("systemd/conclave.service has no %s", line)
		}
	}
}

// TestUserOfTheServerDecidesNothingThatRootRuns: the unit lets the server write to some
// directories, so it could replace any file below them. No unit may read an environment from there,
// because it may name a command that root runs, or be a link to a file that only root may read.
func TestUserOfTheServerDecidesNothingThatRootRuns(t *testing.T) {
	server := text(t, "systemd/conclave.service")
	writable := []string{"/var/lib/conclave"}
	for _, m := range regexp.MustCompile(`(?m)^ReadWritePaths=-?(.+)$`).FindAllStringSubmatch(server, -1) {
		writable = append(writable, strings.Fields(m[1])...)
	}
	for _, script := range []string{"packages/deb-postinst", "packages/rpm-post"} {
		for _, m := range regexp.MustCompile(`(?m)^\s*chown root:conclave (/\S+)$`).FindAllStringSubmatch(text(t, script), -1) {
			writable = append(writable, m[1])
		}
	}
	slices.Sort(writable)
	writable = slices.Compact(writable)
	if !slices.Contains(writable, "/etc/conclave") {
		t.Fatalf("a reconfig has no place to write: %q", writable)
	}
	units, err := filepath.Glob("*/*.service")
	examples, _ := filepath.Glob("../examples/deploy/*/*.service")
	if err != nil || len(units) < 2 || len(examples) < 1 {
		t.Fatal(units, examples, err)
	}
	read := 0
	for _, unit := range append(units, examples...) {
		for _, m := range regexp.MustCompile(`(?m)^EnvironmentFile=-?(.+)$`).FindAllStringSubmatch(text(t, unit), -1) {
			read++
			for _, dir := range writable {
				if strings.HasPrefix(m[1], dir+"/") {
					t.Errorf("%s reads %s, and the server may write %s", unit, m[1], dir)
				}
			}
		}
	}
	if read < 3 {
		t.Errorf("units read %d environments", read)
	}
}

// TestOthersDoNotReadTheConfiguration matters because zoo.cfg may contain passwords. The server
// reads it through its group.
func TestOthersDoNotReadTheConfiguration(t *testing.T) {
	if !strings.Contains(text(t, "packages/nfpm.yaml"), "dst: /etc/conclave/zoo.cfg\n  type: config|noreplace\n  file_info: {mode: 0640,") {
		t.Error("packages have zoo.cfg with another mode than 0640")
	}
	for _, script := range []string{"packages/deb-postinst", "packages/rpm-post"} {
		// -h: what the server has put there may be a link to another file.
		if !strings.Contains(text(t, script), "chown -h root:conclave /etc/conclave/zoo.cfg\n") {
			t.Errorf("%s does not give it to the group of the server", script)
		}
	}
}

// TestStartsAreTriedForAsLongAsItTakes: a port that is in use for ten seconds, or a name server that
// is late, must not leave a unit down until somebody notices.
func TestStartsAreTriedForAsLongAsItTakes(t *testing.T) {
	units, err := filepath.Glob("*/*.service")
	examples, _ := filepath.Glob("../examples/deploy/*/*.service")
	if err != nil || len(units) < 2 || len(examples) < 1 {
		t.Fatal(units, examples, err)
	}
	for _, unit := range append(units, examples...) {
		if !strings.Contains(text(t, unit), "\nRestart=") || !strings.Contains(text(t, unit), "\nStartLimitIntervalSec=0\n") {
			t.Errorf("systemd gives up %s after five starts", unit)
		}
	}
	if page := text(t, "../docs/operations.md"); !strings.Contains(page, "[Unit]\nStartLimitIntervalSec=0\n") {
		t.Error("systemd gives up the unit on the page after five starts")
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestRefusedConfigurationIsNotTriedAgain: systemd applies RestartPreventExitStatus only to the
// main process. If a configuration is refused before that process starts, the unit is started again
// each second.
func TestRefusedConfigurationIsNotTriedAgain(t *testing.T) {
	unit, err := os.ReadFile("systemd/conclave.service")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(unit), "\nRestartPreventExitStatus=2\n") || regexp.MustCompile(`(?m)^ExecStartPre=.*--check`).Match(unit) {
		t.Error("a configuration that is refused is tried again")
	}
}

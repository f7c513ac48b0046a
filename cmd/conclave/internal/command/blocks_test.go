//go:build linux

package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tested lists the languages of blocks, and the pages with such blocks, that another test takes
// from the page.
var tested = []struct{ pages, language, by string }{
	{"docs/*.md", "properties", "TestConfigurationOnThePagesIsTaken"},
	{"docs/*.md", "jaas", "TestSectionsOnThePagesAreRead"},
	{"docs/coming-from/*.md", "go ", "TestEveryProgramOnThePagesIsAFileThatIsCompiled"},
	{"docs/coming-from/*.md", "java ", "TestEveryProgramOnThePagesIsAFileThatIsCompiled"},
	{"docs/fencing.md", "go", "TestCodeOnThePageIsThatOfTheExamples"},
	{"docs/recipes.md", "go", "TestCodeOnThePagesIsThatOfFunctionsThatRun"},
	{"README*.md", "go", "TestCodeOnThePagesIsThatOfFunctionsThatRun"},
}

// notRun lists the other blocks, by how each begins. It names the test, or the script in testdata,
// that runs something similar, or says why nothing here does.
var notRun = []struct{ page, begins, why string }{
	{"CONTRIBUTING.md", "go test work", "runs this test"},
	{"README.md", "git clone https://", "clones what is here already, and installs what the tests build"},
	{"README.zh-CN.md", "git clone https://", "as in README.md"},
	{"README.md", "conclave serve --config /etc", "serves from /etc until it is ended: script check"},
	{"README.zh-CN.md", "conclave serve --config /etc", "as in README.md"},
	{"README.md", "go run ./cmd/conclave lab", "serves until it is ended: TestLeaderIsKilledAndAnotherLeads opens the page in a browser"},
	{"README.md", "go run ./cmd/conclave dev --http", "serves until it is ended: TestNewLeaderIsSeen opens the page in a browser"},
	{"docs/algorithms.md", "conclave run --store 'peers://", "needs three hosts: script peers has three processes"},
	{"docs/commands.md", "$ conclave top", "of three hosts under load: TestTopOfAnEnsemble, script top"},
	{"docs/commands.md", "$ conclave who-locks", "of clients of other libraries on two hosts: TestWhoLocksTellsHoldersAndWaiters"},
	{"docs/commands.md", "$ conclave reconfig", "needs four hosts: TestReconfigChangesWhoVotes"},
	{"docs/configuration.md", "conclave serve --config /etc", "each serves until it is ended: scripts config, check"},
	{"docs/configuration.md", "  zoo.cfg:3", "what a refused start prints: script config"},
	{"docs/configuration.md", "/zookeeper/uri-domain-map/shop", "znodes: script groups makes them"},
	{"docs/configuration.md", "conclave create /zookeeper/uri-domain-map", "needs clients' certificates: script groups types it"},
	{"docs/configuration.md", "conclave serve --config zoo.cfg -D java", "needs a file of SASL: script sh starts a server so"},
	{"docs/dashboard.md", "go run ./cmd/conclave dev --http", "as in README.md: TestNewLeaderIsSeen"},
	{"docs/getting-started.md", "git clone https://", "as in README.md"},
	{"docs/zh-CN/getting-started.md", "git clone https://", "as in README.md"},
	{"docs/getting-started.md", "CONCLAVE_STORE=zk://zk1", "a crontab: the block after it types its command"},
	{"docs/zh-CN/getting-started.md", "CONCLAVE_STORE=zk://zk1", "a crontab: the block after it types its command"},
	{"docs/getting-started.md", "from kazoo.client", "needs kazoo: TestElectionIsSharedWithKazoo has the same lines"},
	{"docs/zh-CN/getting-started.md", "from kazoo.client", "as in the English page"},
	{"docs/getting-started.md", "conclave run nightly --forever -- python3", "the program is the reader's: the first block runs one of its own"},
	{"docs/zh-CN/getting-started.md", "conclave run nightly --forever -- python3", "as in the English page"},
	{"docs/install.md", "sha256sum", "needs what make packages has made: TestInstallPageNamesWhatIsMade runs it"},
	{"docs/install.md", "git clone", "needs the network: TestOutsidersInstallTheCommandAndElect installs a version from a proxy of files"},
	{"docs/install.md", "tar -xzf", "needs what make packages has made: TestInstallPageNamesWhatIsMade runs it"},
	{"docs/install.md", "apt install", "changes the machine: TestDebianPackageLives does it on a copy of its root"},
	{"docs/install.md", "systemctl enable --now conclave\n", "needs systemd: TestDebianPackageLives does it on a copy of the root"},
	{"docs/install.md", "install -D -m 600", "needs systemd: TestDebianPackageLives does it on a copy of the root"},
	{"docs/install.md", "brew tap-new", "needs Homebrew: TestFormulaInstallsAndTests runs the formula without it"},
	{"docs/install.md", "docker load", "needs Docker: TestImageIsWhatOthersRead, TestImageRunsInAContainer"},
	{"docs/install.md", "docker run", "needs Docker: TestImageRunsInAContainer does the same with runc"},
	{"docs/install.md", "skopeo copy", "needs a registry: TestImageIsWhatOthersRead copies it with skopeo"},
	{"docs/install.md", "CONCLAVE_VERSION", "needs Docker: TestComposeCommandsMakeAnEnsemble"},
	{"docs/install.md", "helm install", "needs a cluster: TestHelmInstallsTheChart has a real API server without nodes"},
	{"docs/install.md", "kubectl create namespace", "needs a cluster: TestAPIServerTakesTheManifests"},
	{"docs/laboratory.md", "go run ./cmd/conclave lab", "as in README.md: TestLeaderIsKilledAndAnotherLeads"},
	{"docs/zh-CN/laboratory.md", "go run ./cmd/conclave lab", "as in README.md: TestLeaderIsKilledAndAnotherLeads"},
	{"docs/laboratory.md", "conclave lab --export", "compiles the laboratory first: TestExportWritesOverNothing"},
	{"docs/metrics.md", "scrape_configs:", "needs Prometheus: TestPrometheusGetsWhatTheAlertsAndDashboardsAskFor starts one"},
	{"docs/operations.md", "$ conclave status", "of three hosts: TestStatusFindsTheOtherServersInAConfiguration"},
	{"docs/operations.md", "$ conclave migrate plan", "needs Apache ZooKeeper: TestMigrateCommand"},
	{"docs/operations.md", "$ conclave migrate shadow", "needs Apache ZooKeeper: TestMigrateShadow"},
	{"docs/operations.md", "$ conclave migrate run", "needs Apache ZooKeeper: TestMigrateCommand"},
	{"docs/operations.md", "$ conclave migrate back", "needs Apache ZooKeeper: TestMigrateCommand"},
	{"docs/operations.md", "[Unit]", "needs systemd: TestLeastUnitOnThePageIsAPartOfTheUnit, and TestDebianPackageLives starts that one"},
	{"docs/operations.md", "$ echo srvr", "needs nc: script admin"},
	{"docs/operations.md", "$ curl", "needs curl: TestCommandsAreAnsweredUnderTheirPath"},
	{"docs/operations.md", "$ (umask 077; openssl", "writes to /etc: script tokens has such a file"},
	{"docs/operations.md", "{\n  \"ok\": false", "an answer: TestHealthIsThatOfTheServer"},
	{"docs/operations.md", "rule_files:", "needs Prometheus: TestPrometheusGetsWhatTheAlertsAndDashboardsAskFor starts one"},
	{"docs/operations.md", "OnEvent: election.LogEvents", "of three modules, each of which has an example"},
	{"docs/operations.md", "$ conclave backup take /backup", "writes to the root of the disk: script backup"},
	{"docs/operations.md", "$ age-keygen", "needs age and a bucket: script backup-encrypted"},
	{"docs/operations.md", "$ conclave restore /backup --at 2026-11-24T04:01:08Z --into", "of a moment that is over: script backup"},
	{"docs/operations.md", "$ conclave restore /backup --at 2026-11-24T04:01:08Z --path", "of a moment that is over: script backup"},
	{"docs/operations.md", "2026-03-01 07:05:09", "lines of a log: script audit"},
	{"docs/shell.md", "$ conclave sh", "of a terminal: TestShellOnATerminal"},
	{"docs/simulator.md", "     557  c4", "a part of a trace: script sim prints one"},
	{"examples/deploy/README.md", "kubectl apply", "needs a cluster: TestDeploymentRunsTheWorkerInOnePod"},
}

// TestEveryBlockIsRun checks that every block is run with its page, or is in one of the lists, and
// that everything that a list names exists.
func TestEveryBlockIsRun(t *testing.T) {
	all := pages(t)
	met := map[int]bool{}
	blocks, run := 0, 0
	for page, text := range all {
		for _, b := range blocksOf(text) {
			blocks++
			_, isFile, _ := strings.Cut(b.language, " ")
			at := slices.IndexFunc(notRun, func(n struct{ page, begins, why string }) bool {
				return n.page == page && strings.HasPrefix(b.text, n.begins)
			})
			switch {
			case b.language == "console", isFile != "" && !strings.HasPrefix(page, "docs/coming-from/"):
				run++
			case slices.ContainsFunc(tested, func(o struct{ pages, language, by string }) bool {
				fits, _ := filepath.Match(o.pages, page)
				return fits && (b.language == o.language || strings.HasSuffix(o.language, " ") && strings.HasPrefix(b.language, o.language))
			}):
			case at < 0:
				t.Errorf("%s: nothing runs the block that begins with %.60q: let it begin with ```console, or give the reason in notRun", page, b.text)
			default:
				met[at] = true
			}
		}
	}
	if blocks < 130 || run < 25 {
		t.Errorf("of %d blocks %d are run", blocks, run)
	}
	there := testsAndScripts(t)
	name := regexp.MustCompile(`\bTest[A-Z]\w*|\bscripts? ([a-z-]+(?:, [a-z-]+)*)`)
	look := func(by string) {
		for _, found := range name.FindAllStringSubmatch(by, -1) {
			for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(found[0], "scripts "), "script "), ", ") {
				if !there[name] {
					t.Errorf("%q: there is no %s", by, name)
				}
			}
		}
	}
	for i, n := range notRun {
		if !met[i] {
			t.Errorf("%s has no block that begins with %.60q", n.page, n.begins)
		}
		look(n.why)
	}
	for _, o := range tested {
		look(o.by)
	}
}

// block is the text between two fences.
type block struct{ language, text string }

func blocksOf(page string) (all []block) {
	inside := false
	for line := range strings.Lines(page) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			all = append(all, block{language: fence})
			inside = true
		case isFence:
			inside = false
		case inside:
			all[len(all)-1].text += line
		}
	}
	return all
}

// testsAndScripts returns the names of the tree's tests and of this package's scripts.
func testsAndScripts(t *testing.T) map[string]bool {
	there := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)`)
	err := filepath.WalkDir("../../../..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, found := range test.FindAllSubmatch(source, -1) {
			there[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := os.ReadDir("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		there[strings.TrimSuffix(s.Name(), ".txt")] = true
	}
	return there
}

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// TestPlanStartsWhatItHasRead checks precedence: zoo.cfg overrides the flags of Java, both in
// Apache ZooKeeper and as the plan reads them, and the command line overrides zoo.cfg.
func TestPlanStartsWhatItHasRead(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	for name, text := range map[string]string{
		"zoo.cfg": "tickTime=500\ndataDir=" + dir + "\nclientPort=2181\nforceSync=yes\nserver.1=127.0.0.1:1:2\n",
		"java.env": `export SERVER_JVMFLAGS="-Dzookeeper.forceSync=no -Djute.maxbuffer=4194304 -Dcom.sun.management.jmxremote.port=4711 ` +
			`-Dzookeeper.ssl.keyStore.password=changeit"` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := &migrationPlan{}
	plan.readConfig(config)
	if want := "conclave serve --config " + config + " -D jute.maxbuffer=4194304"; plan.Start != want {
		t.Errorf("it starts %s\nnot %s", plan.Start, want)
	}
	said := strings.Join(slices.Concat(plan.Obstacles, plan.Remarks), "\n")
	if strings.Contains(said+plan.Start, "changeit") || !strings.Contains(strings.Join(plan.Obstacles, "\n"), "ssl.keyStore.password") {
		t.Errorf("%s\nobstacles %q", said, plan.Obstacles)
	}

	peers, err := ensemble.Parse("server.1=127.0.0.1:1:2\n")
	if err != nil {
		t.Fatal(err)
	}
	v := &migrateShadow{config: config, id: 254}
	_, flags, err := v.configure(t.TempDir(), &moving{config: peers})
	if err != nil || slices.ContainsFunc(flags, func(flag string) bool { return strings.Contains(flag, "forceSync") }) {
		t.Errorf("the observer has the flags %q, %v", flags, err)
	}
}

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// TestObserverHasTheFlagsOfJavaAsFlags matters because a key in zoo.cfg that begins with zookeeper.
// has no effect, and then TTL znodes are not recognized.
func TestObserverHasTheFlagsOfJavaAsFlags(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"zoo.cfg":  "tickTime=500\ndataDir=/x\nserver.1=127.0.0.1:1:2\nfips-mode=false\nconclave.backupPlace=/y\n",
		"java.env": `export SERVER_JVMFLAGS="-Xmx1g -Djute.maxbuffer=4194304 -Dzookeeper.extendedTypesEnabled=true -Dzookeeper.admin.serverPort=1"` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := ensemble.Parse("server.1=127.0.0.1:1:2\n")
	if err != nil {
		t.Fatal(err)
	}
	v := &migrateShadow{config: filepath.Join(dir, "zoo.cfg"), id: 254}
	address, flags, err := v.configure(own, &moving{config: config})
	if want := []string{"-D", "jute.maxbuffer=4194304", "-D", "zookeeper.extendedTypesEnabled=true"}; err != nil || !slices.Equal(flags, want) {
		t.Errorf("flags %q, %v", flags, err)
	}
	text, err := os.ReadFile(filepath.Join(own, "zoo.cfg"))
	if err != nil || !strings.HasPrefix(string(text), "tickTime=500\nserver.1=127.0.0.1:1:2\nfips-mode=false\ndataDir="+own) ||
		!strings.Contains(string(text), "peerType=observer\n") || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("%s: %v\n%s", address, err, text)
	}
}

// TestObserverHasNothingThatItsServerHasForItself has a zoo.cfg that may be ready for the exchange,
// and whose server may have been exchanged already.
func TestObserverHasNothingThatItsServerHasForItself(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	text := "tickTime=500\ndataDir=/x\nserver.1=127.0.0.1:1:2\nconclave.httpAddress=127.0.0.1:8080\nconclave.httpChanges=true\n" +
		"conclave.myid=zk-0\nconclave.auditFile=/x/audit\nconclave.silenceMs=700\n"
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := ensemble.Parse("server.1=127.0.0.1:1:2\n")
	if err != nil {
		t.Fatal(err)
	}
	v := &migrateShadow{config: filepath.Join(dir, "zoo.cfg"), id: 254}
	if _, _, err := v.configure(own, &moving{config: config}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(own, "zoo.cfg"))
	if err != nil || !strings.HasPrefix(string(got), "tickTime=500\nserver.1=127.0.0.1:1:2\nconclave.silenceMs=700\ndataDir="+own) {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestLinesOfAnyLengthArePassedOn includes lines after a long one, and a line without an end.
func TestLinesOfAnyLengthArePassedOn(t *testing.T) {
	var out strings.Builder
	long := strings.Repeat("x", 3*shownBytesMax)
	passLines(&out, "observer: ", strings.NewReader("first\n"+long+"\n\nlast"))
	want := "observer: first\nobserver: " + long[:shownBytesMax] + " ... and 131073 bytes more\nobserver: \nobserver: last\n"
	if out.String() != want {
		t.Errorf("%d bytes, which end with %q", out.Len(), out.String()[max(0, out.Len()-60):])
	}
}

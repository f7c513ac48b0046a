//go:build linux

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newSleepers(t *testing.T, o EnsembleOptions) *Ensemble {
	t.Helper()
	o.Dir = t.TempDir()
	o.Kinds = []Kind{sleeper{}, sleeper{}, sleeper{}}
	e, err := NewEnsemble(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// configOf returns the configuration with which a member would be started.
func configOf(t *testing.T, m *Member) string {
	t.Helper()
	if err := m.writeConfig(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(m.configFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMembersHaveOneConfigurationAndAnIdEach(t *testing.T) {
	e := newSleepers(t, EnsembleOptions{Observers: []int{3}, Config: []string{"syncLimit=9"}})
	for _, m := range e.Members {
		text := configOf(t, m)
		for _, other := range e.Members {
			if !strings.Contains(text, other.Line()+"\n") {
				t.Errorf("server %d does not know %s:\n%s", m.ID, other.Line(), text)
			}
		}
		if !strings.Contains(text, "\nsyncLimit=9\n") || strings.Contains(text, "syncLimit=4") {
			t.Errorf("server %d:\n%s", m.ID, text)
		}
		if observes := strings.Contains(text, "peerType=observer"); observes != (m.ID == 3) {
			t.Errorf("server %d observes: %v", m.ID, observes)
		}
		id, err := os.ReadFile(filepath.Join(m.DataDir(), "myid"))
		if err != nil || string(id) != fmt.Sprintf("%d\n", m.ID) {
			t.Errorf("server %d: myid %q, %v", m.ID, id, err)
		}
	}
	if line := e.Member(3).Line(); !strings.HasSuffix(line, ":observer") {
		t.Errorf("the observer's line is %s", line)
	}
}

func TestBehindProxiesEachMemberKnowsTheOthersByPortsOfItsOwn(t *testing.T) {
	e := newSleepers(t, EnsembleOptions{Proxied: true})
	seen := map[string]bool{}
	for _, reader := range e.Members {
		if own := reader.lineFor(reader); own != reader.Line() || !strings.Contains(configOf(t, reader), own+"\n") {
			t.Errorf("server %d listens as %s, its line is %s", reader.ID, own, reader.Line())
		}
		for _, m := range e.Members {
			line := m.lineFor(reader)
			if seen[line] {
				t.Errorf("%s stands in two configurations", line)
			}
			seen[line] = true
		}
	}
}

func TestWhereTheConfigurationChangesTheServersKeepIt(t *testing.T) {
	e := newSleepers(t, EnsembleOptions{Reconfig: true})
	m := e.Member(1)
	text := configOf(t, m)
	if strings.Contains(text, "clientPort") || !strings.Contains(text, fmt.Sprintf(";127.0.0.1:%d\n", m.clientPort)) {
		t.Errorf("the client port stands in the server's line only:\n%s", text)
	}
	if err := os.WriteFile(m.configFile(), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := configOf(t, m); text != "changed" {
		t.Errorf("written again:\n%s", text)
	}
	if _, err := NewEnsemble(t.Context(), EnsembleOptions{Proxied: true, Reconfig: true}); err == nil {
		t.Error("proxied, and changing its configuration")
	}
}

func TestAServerThatAReconfigHasTakenOutIsNotListed(t *testing.T) {
	e := newSleepers(t, EnsembleOptions{Reconfig: true})
	m := e.Member(1)
	configOf(t, m)
	if listed, err := m.Listed(); err != nil || !listed {
		t.Errorf("before its first start: %v, %v", listed, err)
	}
	// As a server stores it: the lines are in a separate file.
	dynamic := m.configFile() + ".dynamic.100000000"
	for name, text := range map[string]string{m.configFile(): "dynamicConfigFile=" + dynamic + "\n", dynamic: e.Member(2).Line() + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if listed, err := m.Listed(); err != nil || listed {
		t.Errorf("taken out: %v, %v", listed, err)
	}
	if err := m.JoinConfig(m, e.Member(2)); err != nil {
		t.Fatal(err)
	}
	if listed, err := m.Listed(); err != nil || !listed {
		t.Errorf("about to join: %v, %v", listed, err)
	}
}

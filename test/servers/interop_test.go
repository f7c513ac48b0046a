//go:build linux && interop

package servers

import "testing"

func TestApacheStartsStopsAndKeepsItsDirectory(t *testing.T) {
	for _, version := range []string{Apache39, Apache38} {
		dir := t.TempDir()
		s, err := Start(t.Context(), Apache(version), Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Kill() })
		answer, err := FourLetterWord(s.Addr, "ruok")
		if err != nil || answer != "imok" {
			t.Errorf("%s: ruok answered %q, %v", version, answer, err)
		}
		s.Crash()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		cpu, err := s.CPU()
		if err != nil || cpu <= 0 {
			t.Errorf("cpu time %v, %v", cpu, err)
		}
		rss, err := s.RSS()
		t.Logf("%s: cpu %v, rss %d MiB, %v", version, cpu, rss>>20, err)
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

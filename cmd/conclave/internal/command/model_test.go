package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func playModel(t *testing.T, args ...string) (results []explored, err error) {
	t.Helper()
	c := newModel()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(append(args, "--json"))
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.Execute()
	if out.Len() > 0 {
		if bad := json.Unmarshal(out.Bytes(), &results); bad != nil {
			t.Fatalf("%v\n%s", bad, out.String())
		}
	}
	return results, err
}

func TestModelSaysWhatItHasSeen(t *testing.T) {
	results, err := playModel(t, "--model", "zab-snapshot")
	if err != nil || len(results) != 1 || results[0].States < 1000 || results[0].Wrong != "" || results[0].Unfinished != "" {
		t.Fatalf("%v: %+v", err, results)
	}
}

func TestModelSavesAViolationAsAStory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.txt")
	results, err := playModel(t, "--mutant", "nobody-is-zero", "--save", file)
	if err != nil || len(results) != 1 || !strings.HasPrefix(results[0].Wrong, "LIVENESS") {
		t.Fatalf("%v: %+v", err, results)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "participants 0 1 2\nservers 0 1 2\n") || !strings.Contains(string(text), "\nlook ") {
		t.Fatalf("%v\n%s", err, text)
	}
}

func TestModelThatDoesNotFinishFails(t *testing.T) {
	results, err := playModel(t, "--model", "fle", "--time", "1ms")
	if err == nil || len(results) != 1 || results[0].Unfinished == "" {
		t.Fatalf("%v: %+v", err, results)
	}
	if _, err = playModel(t, "--model", "none"); err == nil {
		t.Fatal("a model that does not exist was explored")
	}
	if _, err = playModel(t, "--scope", "huge"); err == nil {
		t.Fatal("a scope that does not exist was explored")
	}
}

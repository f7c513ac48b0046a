package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/conclave-project/conclave/internal/sim"
)

// event is one line of the output of go test -json.
type event struct {
	Action, Test, Output, Key, Value string
}

// hunt runs the test of a proof.
func (p *proof) hunt() ([]mutant, error) {
	args := append([]string{"test", "-json", "-count=1", "-timeout=60m", "-run=^" + p.test + "$", p.pkg}, p.flags...)
	c := exec.Command("go", args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	var all []mutant
	at := map[string]int{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // of the build
		}
		name, isMutant := strings.CutPrefix(e.Test, p.test+"/")
		if !isMutant {
			continue
		}
		if _, known := at[name]; !known {
			at[name] = len(all)
			all = append(all, mutant{proof: p.name, name: name, what: whatOf(p, name)})
		}
		all[at[name]].see(e)
	}
	// If a test fails, a mutant was not found or did not run.
	if err := errors.Join(lines.Err(), c.Wait()); err != nil && len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no mutants", p.test)
	}
	return all, nil
}

var logged = regexp.MustCompile(`^ +\w+_test\.go:\d+: (.*)`)

// see processes a line.
func (m *mutant) see(e event) {
	switch e.Action {
	case "pass":
		m.found = true
		fmt.Printf("%s %s: %s\n", m.proof, m.name, m.by)
	case "attr":
		if e.Key == "what" {
			m.what = e.Value
		}
	case "output":
		if line := logged.FindStringSubmatch(e.Output); line != nil {
			m.by = strings.TrimSpace(line[1])
		}
	}
}

// whatOf returns what a mutant of the simulator does; other mutants describe themselves.
func whatOf(p *proof, name string) string {
	var m sim.Mutant
	if p.name == "simulator" && m.UnmarshalText([]byte(name)) == nil {
		return m.What()
	}
	return ""
}

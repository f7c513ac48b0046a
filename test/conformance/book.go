//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
)

// book is the collected results: the content of docs/backends.json.
type book struct {
	// Reports has one report for each suite of a backend, in the order of proofs.
	Reports []electiontest.Report `json:"reports"`
	// Others are the foreign locks in the experiment with pauses.
	Others []other `json:"others"`
}

// other is the result of a foreign lock.
type other struct {
	Name   string            `json:"name"`
	Result lostupdate.Result `json:"result"`
}

// load reads the book; it is empty if the file does not exist.
func load() (book, error) {
	var b book
	text, err := os.ReadFile(reportsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fmt.Errorf("read %s: %w", reportsFile, err)
	}
	return b, nil
}

// read returns the reports in a directory.
func read(dir string) ([]electiontest.Report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var reports []electiontest.Report
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r electiontest.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// add replaces older reports of the same suite. A report with only the experiment is merged
// into the older one, and a report without the experiment keeps the older experiment.
func (b *book) add(reports []electiontest.Report) {
	for _, r := range reports {
		at := slices.IndexFunc(b.Reports, func(old electiontest.Report) bool {
			return old.Traits.Name == r.Traits.Name && old.Suite == r.Suite
		})
		if at < 0 {
			b.Reports = append(b.Reports, r)
			continue
		}
		old := &b.Reports[at]
		lost := old.LostUpdates
		if r.LostUpdates != nil {
			lost = r.LostUpdates
		}
		if !onlyLost(r) {
			*old = r
		}
		old.LostUpdates = lost
	}
	slices.SortStableFunc(b.Reports, func(x, y electiontest.Report) int { return place(x) - place(y) })
}

// onlyLost reports whether only the experiment with pauses was run.
func onlyLost(r electiontest.Report) bool {
	passed, failed, _ := tally(r)
	return r.LostUpdates != nil && passed+failed <= 1
}

// place returns the position of the report's backend in the list.
func place(r electiontest.Report) int {
	at := slices.IndexFunc(proofs, func(p proof) bool { return p.name == r.Traits.Name })
	if at < 0 {
		return len(proofs)
	}
	return at
}

// addOther replaces an older result of the same foreign lock.
func (b *book) addOther(o other) {
	b.Others = slices.DeleteFunc(b.Others, func(old other) bool { return old.Name == o.Name })
	b.Others = append(b.Others, o)
}

// save writes the book and the page.
func (b book) save() error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", reportsFile, err)
	}
	if err := os.WriteFile(reportsFile, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(b.page()), 0o644)
}

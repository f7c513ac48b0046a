// Command mutants puts every known bug back, one at a time, and prints by which proof each
// is found. It fails if one is not found.
//
//	go run ./test/mutants                 # all; "N of N mutants found"
//	go run ./test/mutants -only model     # those of one proof
//	go run ./test/mutants -write          # and makes the tables of docs/proofs.md, or
//	                                      # with -only, the rows of that proof again
//
// A proof is a test whose subtests are mutants: a subtest that passes has found its mutant.
// The subtest's attribute "what" describes the mutant; the last line that it logs says how
// it was found.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// proof is a test whose subtests are mutants.
type proof struct {
	name    string // in the tables
	what    string // it is
	pkg     string
	test    string
	flags   []string
	command string // that people may type instead
}

var proofs = []proof{
	{"simulator", "whole servers, disks, links, clients and faults, from one seed", "./internal/sim", "TestEveryMutantIsFound", nil,
		"go test ./internal/sim -run EveryMutant"},
	{"peers", "random ensembles of Zab peers alone", "./internal/zab", "TestEveryMutantIsFound", nil,
		"go test ./internal/zab -run EveryMutant"},
	{"model", "every order of events in small systems", "./internal/model/models", "TestMutantsAreFound", []string{"-slow"},
		"conclave model --mutants"},
	{"storms", "whole servers with their connections and ports, on virtual time", "./internal/server", "TestStormsFindMutants", nil,
		"go test ./internal/server -run StormsFindMutants"},
	{"elections", "candidates, clients and whole servers together, on virtual time", "./election/backend/zookeeper",
		"TestElectionStormsFindMutants", nil, "go test ./election/backend/zookeeper -run StormsFindMutants"},
	{"members", "members that elect among themselves, with their disks and links, on virtual time", "./election/backend/peers",
		"TestMemberStormsFindMutants", nil, "go test ./election/backend/peers -run StormsFindMutants"},
	{"queues", "candidates on a queue in memory, over bad links, on virtual time", "./election/queue",
		"TestQueueStormsFindMutants", nil, "go test ./election/queue -run StormsFindMutants"},
	{"records", "candidates on a record in memory, over bad links, on virtual time", "./election/record",
		"TestRecordStormsFindMutants", nil, "go test ./election/record -run StormsFindMutants"},
	{"client", "the whole client on virtual time", "./client", "TestWholeClientFindsMutants", nil,
		"go test ./client -run FindsMutants"},
	{"candidates", "whole candidates on virtual time", "./election/record", "TestWholeCandidatesFindMutants", []string{"-rare"},
		"go test ./election/record -run FindMutants -rare"},
	{"conformance", "the suite that every backend passes, on real processes", "./election/electiontest", "TestSuiteFindsMutants", nil,
		"go test ./election/electiontest -run FindsMutants"},
	{"test", "a test of one machine", "./internal/tree", "TestEveryMutantIsFound", nil,
		"go test ./internal/tree -run EveryMutant"},
}

// mutant is a known bug, with the result of looking for it.
type mutant struct {
	proof, name, what string
	found             bool
	by                string
}

// demanded are bugs that the proofs did not find when a review looked for them, and the
// mutants that represent them.
var demanded = []struct {
	what    string
	mutants []string
}{
	{"discovery by the old quorum alone", []string{"simulator old-quorum-discovers", "model zab-discovery-by-old-quorum"}},
	{"a delete that is skipped in replay", []string{"simulator delete-skipped"}},
	{"a walk over the tree that gets lost", []string{"test lost-walk"}},
	{"the report that the log cannot be truncated, dropped", []string{"model zab-failure-dropped"}},
	{"a server that joins a leadership and tells nobody", []string{"model joins-silently"}},
	{"a grant by reading", []string{"candidates grant-by-reading", "model elector-grant-by-reading"}},
	{"a deadline after a callback", []string{"candidates deadline-after-callback", "model elector-deadline-after-callback"}},
	{"a renewal while the function is ending", []string{"candidates renewal-while-ending", "model elector-renewal-while-ending"}},
	{"a token that is not strided", []string{"candidates token-not-strided", "model elector-token-not-strided"}},
	{"a stale handle that resigns", []string{"candidates stale-resign", "model elector-stale-resign"}},
}

func main() {
	only := flag.String("only", "", "the mutants of this proof alone")
	write := flag.Bool("write", false, "make the tables of docs/proofs.md")
	flag.Parse()
	if err := run(*only, *write); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, write bool) error {
	began := time.Now()
	var all []mutant
	known := false
	for _, p := range proofs {
		if only != "" && only != p.name {
			continue
		}
		known = true
		found, err := p.hunt()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, found...)
	}
	if !known {
		return fmt.Errorf("no proof is named %q", only)
	}
	count := 0
	for _, m := range all {
		if m.found {
			count++
		} else {
			fmt.Printf("NOT FOUND: %s %s: %s\n", m.proof, m.name, m.by)
		}
	}
	if only == "" {
		if err := demand(all); err != nil {
			return err
		}
	}
	if write && count == len(all) {
		if err := writeTables(all); err != nil {
			return err
		}
	}
	fmt.Printf("%d of %d mutants found, in %v\n", count, len(all), time.Since(began).Round(time.Second))
	if count < len(all) {
		return fmt.Errorf("%d were not found", len(all)-count)
	}
	return nil
}

// demand checks that the bugs that a review missed are among the mutants.
func demand(all []mutant) error {
	there := map[string]bool{}
	for _, m := range all {
		there[m.proof+" "+m.name] = true
	}
	for _, d := range demanded {
		for _, name := range d.mutants {
			if !there[name] {
				return fmt.Errorf("%s: no mutant %q", d.what, name)
			}
		}
	}
	return nil
}

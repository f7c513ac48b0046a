package replicadisk

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// TestCheckSaysWhatAStartDoes: a server of an ensemble needs files that a standalone one does
// not read, and can get from a leader what a standalone one would have to do without.
func TestCheckSaysWhatAStartDoes(t *testing.T) {
	const dir = "data/version-2/"
	write := func(t *testing.T, mem *vfs.Mem, name, text string) {
		t.Helper()
		must(t, mem.MkdirAll(dir))
		must(t, vfs.ReplaceFile(mem, name, name+".tmp", []byte(text)))
	}
	history := func(t *testing.T, mem *vfs.Mem) {
		t.Helper()
		write(t, mem, "data/initialize", "")
		d, _ := begin(t, mem, options())
		must(t, newHistory(t).add(1, 1, 3).log(d, 0))
		must(t, d.Close())
	}
	type answer struct {
		refusal, problem, note string // parts of the first ones, "" for none
		fresh                  bool
	}
	sound, fresh, lost := answer{}, answer{fresh: true}, "the history of this server, or its end, was lost"
	for _, c := range []struct {
		name          string
		files         map[string]string
		empty         bool
		alone, member answer
	}{
		{"a history", nil, false, sound, sound},
		{"nothing", nil, true, fresh, sound},
		{"nothing, and leave to begin", map[string]string{"data/initialize": ""}, true, fresh, fresh},
		{"nothing of a history that was lost", map[string]string{dir + "rejoining": "x"}, true,
			answer{refusal: lost, problem: lost}, answer{note: lost}},
		{"a part of a history that was lost", map[string]string{dir + "rejoining": "x"}, false,
			answer{refusal: lost, problem: lost}, answer{note: lost}},
		{"a history that was lost, and leave to begin", map[string]string{dir + "rejoining": "x", "data/initialize": ""}, false, sound, sound},
		{"no number in currentEpoch", map[string]string{dir + "currentEpoch": "x"}, false,
			answer{problem: "currentEpoch"}, answer{refusal: "currentEpoch", problem: "currentEpoch"}},
		{"no number in acceptedEpoch", map[string]string{dir + "acceptedEpoch": "x"}, false,
			answer{problem: "acceptedEpoch"}, answer{refusal: "acceptedEpoch", problem: "acceptedEpoch"}},
		{"no epoch in currentEpoch", map[string]string{dir + "currentEpoch": "-7"}, false,
			answer{problem: "currentEpoch"}, answer{refusal: "currentEpoch", problem: "currentEpoch"}},
		{"a promise that was lost", map[string]string{dir + "acceptedEpoch": "2", dir + "currentEpoch": "3"}, false,
			answer{note: "a server of an ensemble would refuse this directory: data/version-2: acceptedEpoch 2 is below currentEpoch 3"},
			answer{refusal: "acceptedEpoch 2 is below", problem: "acceptedEpoch 2 is below"}},
		{"no zxid in gap", map[string]string{dir + "gap": "x"}, false,
			answer{refusal: dir + "gap", problem: dir + "gap"}, answer{refusal: dir + "gap", problem: dir + "gap"}},
		{"no zxid in differs", map[string]string{dir + "differs": "x"}, false,
			answer{refusal: dir + "differs", problem: dir + "differs"}, answer{refusal: dir + "differs", problem: dir + "differs"}},
		{"digests that differed", map[string]string{dir + "differs": "100000002"}, false,
			answer{note: dir + "differs says that from 0x100000002 on the leader's digests"},
			answer{note: dir + "differs says that from 0x100000002 on the leader's digests"}},
		{"a gap", map[string]string{dir + "gap": "100000002"}, false,
			answer{note: dir + "gap says that the log lacks a record before 0x100000002"}, answer{note: dir + "gap says that the log lacks a record before 0x100000002"}},
	} {
		for role, want := range map[string]answer{"alone": c.alone, "of an ensemble": c.member} {
			t.Run(c.name+", "+role, func(t *testing.T) {
				mem := vfs.NewMem()
				must(t, mem.MkdirAll(dir))
				if !c.empty {
					history(t, mem)
				}
				for name, text := range c.files {
					write(t, mem, name, text)
				}
				opts := options()
				opts.Ensemble = role != "alone"
				r, err := Check(mem, opts)
				must(t, err)
				for kind, one := range map[string]struct {
					got  []string
					want string
				}{
					"refusals": {[]string{r.Refusal}, want.refusal},
					"problems": {r.Problems, want.problem}, "notes": {r.Notes, want.note},
				} {
					got := strings.Join(one.got, "\n")
					if len(one.got) > 1 || (got == "") != (one.want == "") || !strings.Contains(got, one.want) {
						t.Errorf("%s: %q, want %q", kind, got, one.want)
					}
				}
				if r.Fresh != want.fresh {
					t.Errorf("fresh: %v", r.Fresh)
				}

				d, err := Open(mem, opts)
				must(t, err)
				found, err := d.Recover()
				if (err != nil) != (want.refusal != "") || err != nil && !strings.Contains(err.Error(), want.refusal) {
					t.Errorf("a start: %v", err)
				}
				if err == nil && found.Stored.Last != max(r.Last, zk.Zxid(0)) {
					t.Errorf("a start ends at %s, check says %s", found.Stored.Last, r.Last)
				}
				must(t, d.Close())
			})
		}
	}
}

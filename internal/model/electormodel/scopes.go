package electormodel

// Rates: all clocks alike, the store's fast, the store's slow, one candidate's fast.
var (
	alike = [][]int64{{20, 20, 20}}
	two   = [][]int64{{20, 20, 20}, {20, 20, 25}, {25, 25, 20}, {25, 20, 20}}
)

// Small and Full are two candidates whose functions end when they like.
var (
	Small = Scope{Text: "2 candidates, 4 ways of clocks, 80 ms of a lease of 100; 1 stands still, 1 asked to resign",
		Candidates: 2, Rates: two, Steps: 4, Freezes: 1, Resigns: 1}
	Full = Scope{Text: "2 candidates, 4 ways of clocks, 140 ms of a lease of 100; 1 stands still, 1 asked to resign",
		Candidates: 2, Rates: two, Steps: 7, Freezes: 1, Resigns: 1}
)

// Held is the scope in which the mutants are looked for.
var Held = Scope{Text: "2 candidates, clocks alike, 180 ms of a lease of 100; 1 message late, 1 stands still, 1 asked to resign",
	Candidates: 2, Rates: alike, Steps: 9, Late: 1, Freezes: 1, Resigns: 1}

// WithMutant returns the scope with a known bug put back.
func (s Scope) WithMutant(m Mutant) Scope {
	s.Mutant = m
	return s
}

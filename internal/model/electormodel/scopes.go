package electormodel

// Rates of the clocks: all alike, the store's fast, the store's slow, one candidate's fast.
var (
	alike = [][]int64{{20, 20, 20}}
	two   = [][]int64{{20, 20, 20}, {20, 20, 25}, {25, 25, 20}, {25, 20, 20}}
)

// Small and Full are two candidates that stall beyond their lease; their functions end at
// any time.
var (
	Small = Scope{Text: "2 candidates, clocks alike, 100 ms of a lease of 100; 1 stalls",
		Candidates: 2, Rates: alike, Steps: 5, Freezes: 1}
	Full = Scope{Text: "2 candidates, 4 ways of clocks, 140 ms of a lease of 100; 1 stalls",
		Candidates: 2, Rates: two, Steps: 7, Freezes: 1}
)

// SmallResign and FullResign let people ask for resignations at any time.
var (
	SmallResign = Scope{Text: "2 candidates, clocks alike, 40 ms; 1 asked to resign",
		Candidates: 2, Rates: alike, Steps: 2, Resigns: 1}
	FullResign = Scope{Text: "2 candidates, clocks alike, 80 ms; 2 asked to resign, by this handle or the last",
		Candidates: 2, Rates: alike, Steps: 4, Resigns: 2}
)

// SmallLinks and FullLinks have a network that delays and loses messages.
var (
	SmallLinks = Scope{Text: "2 candidates, clocks alike, 80 ms; 1 request or answer lost",
		Candidates: 2, Rates: alike, Steps: 4, Losses: 1}
	FullLinks = Scope{Text: "2 candidates, clocks alike, 100 ms; 1 request or answer late, 1 lost",
		Candidates: 2, Rates: alike, Steps: 5, Late: 1, Losses: 1}
)

// SmallFailover and FullFailover have a store that fails over and forgets.
var (
	SmallFailover = Scope{Text: "2 candidates, clocks alike, 80 ms; 1 failover",
		Candidates: 2, Rates: alike, Steps: 4, Failovers: 1}
	FullFailover = Scope{Text: "2 candidates, clocks alike, 140 ms; 1 failover, 1 request or answer lost",
		Candidates: 2, Rates: alike, Steps: 7, Failovers: 1, Losses: 1}
)

// SmallParts and FullParts have a store that is split in two for a while.
var (
	SmallParts = Scope{Text: "2 candidates, clocks alike, 60 ms; the store once in two",
		Candidates: 2, Rates: alike, Steps: 3, Parts: 1}
	FullParts = Scope{Text: "2 candidates, clocks alike, 120 ms; the store once in two",
		Candidates: 2, Rates: alike, Steps: 6, Parts: 1}
)

// Late is the scope that tests leases and deadlines.
var Late = Scope{Text: "2 candidates, clocks alike, 180 ms; 1 request or answer late",
	Candidates: 2, Rates: alike, Steps: 9, Late: 1}

package raftmodel

// Rates of the clocks: all alike, or one of them fast, or all but one fast.
var (
	alike  = [][]int64{{20, 20, 20}}
	drifts = [][]int64{{25, 20, 20}, {20, 25, 25}}
)

// Small and Full let members die between any two effects, and messages arrive late.
var (
	Small = Scope{Text: "3 members, 1 wants to lead, clocks alike, 60 ms of a lease of 100; 1 crash and restart",
		Members: 3, Wants: 1, Rates: alike, Steps: 3, Terms: 2, Crashes: 1}
	Full = Scope{Text: "3 members, 2 want to lead, clocks alike, 140 ms; 1 crash and restart",
		Members: 3, Wants: 2, Rates: alike, Steps: 7, Terms: 2, Crashes: 1}
)

// SmallLease and FullLease let members stall beyond their lease, with clocks that differ by
// the allowed maximum.
var (
	SmallLease = Scope{Text: "3 members, 1 wants to lead, clocks a quarter apart, 2 ways, 80 ms; 1 stalls",
		Members: 3, Wants: 1, Rates: drifts, Steps: 4, Terms: 2, Freezes: 1}
	FullLease = Scope{Text: "3 members, 2 want to lead, clocks a quarter apart, 2 ways, 140 ms; 1 stalls",
		Members: 3, Wants: 2, Rates: drifts, Steps: 7, Terms: 2, Freezes: 1}
)

// SmallLinks and FullLinks have a network that loses messages, and leaders that step down
// in favour of another member.
var (
	SmallLinks = Scope{Text: "3 members, 1 wants to lead, 40 ms; 1 asked to step down, 1 message lost",
		Members: 3, Wants: 1, Rates: alike, Steps: 2, Terms: 3, Transfers: 1, Losses: 1}
	FullLinks = Scope{Text: "3 members, 2 want to lead, 40 ms; 1 asked to step down, 1 message lost",
		Members: 3, Wants: 2, Rates: alike, Steps: 2, Terms: 3, Transfers: 1, Losses: 1}
)

// SmallForget and FullForget let a member forget the election, its vote and its promises,
// while the election is idle as far as the member knows.
var (
	SmallForget = Scope{Text: "3 members, 1 wants to lead, 240 ms of a lease of 100; 1 partitioned, 1 forgets",
		Members: 3, Wants: 1, Rates: alike, Steps: 12, Terms: 2, Cuts: 1, Collapses: 1}
	FullForget = Scope{Text: "3 members, 2 want to lead, 240 ms of a lease of 100; 2 partitioned, 1 forgets",
		Members: 3, Wants: 2, Rates: alike, Steps: 12, Terms: 3, Cuts: 2, Collapses: 1}
)

// SmallLose, QuickLose and FullLose let a member lose its disk and come back as a newcomer.
var (
	SmallLose = Scope{Text: "3 members, 1 wants to lead, 100 ms, which is a lease; 1 partitioned, 1 loses its disk",
		Members: 3, Wants: 1, Rates: alike, Steps: 5, Terms: 2, Cuts: 1, Loses: 1}
	QuickLose = Scope{Text: "3 members, 2 want to lead, 40 ms; 1 partitioned, 1 loses its disk",
		Members: 3, Wants: 2, Rates: alike, Steps: 2, Terms: 2, Cuts: 1, Loses: 1}
	FullLose = Scope{Text: "3 members, 2 want to lead, 160 ms of a lease of 100; 1 partitioned, 1 loses its disk",
		Members: 3, Wants: 2, Rates: alike, Steps: 8, Terms: 3, Cuts: 1, Loses: 1}
)

// Stands is the scope for a lease that is counted from the answer.
var Stands = Scope{Text: "3 members, 2 want to lead, clocks alike, 100 ms; 1 stalls, 1 is partitioned",
	Members: 3, Wants: 2, Rates: alike, Steps: 5, Terms: 2, Freezes: 1, Cuts: 1}

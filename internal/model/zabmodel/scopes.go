package zabmodel

import "github.com/conclave-project/conclave/internal/quorum"

// first is a first start. later are starts after an epoch with three servers: its second
// transaction is on two disks, acknowledged or not, or on one.
var (
	first = []Start{{Logs: []int{0, 0, 0}}}
	later = []Start{{Logs: []int{1, 2, 2}, Shown: 1}, {Logs: []int{2, 2, 1}, Shown: 2}, {Logs: []int{2, 1, 1}, Shown: 1}}
)

// Small and Full begin after an epoch whose transactions are on only some of the disks.
var (
	Small = Scope{Text: "3 servers with an older epoch, 3 ways; 1 election, 1 transaction, 1 crash and restart",
		Servers: 3, Starts: later, Elections: 1, Txns: 1, Crashes: 1}
	Full = Scope{Text: "3 servers with an older epoch, 3 ways; 2 elections, 1 transaction, 1 crash and restart",
		Servers: 3, Starts: later, Elections: 2, Txns: 1, Crashes: 1}
)

// SmallLinks and FullLinks begin with empty disks, and links break.
var (
	SmallLinks = Scope{Text: "3 new servers; 1 election, 1 transaction, 1 broken connection",
		Servers: 3, Starts: first, Elections: 1, Txns: 1, Resets: 1}
	FullLinks = Scope{Text: "3 new servers; 2 elections, 1 of them wrong, 1 transaction, 1 crash and restart, 1 broken connection",
		Servers: 3, Starts: first, Elections: 2, Wrong: 1, Txns: 1, Crashes: 1, Resets: 1}
)

// SmallDisk and FullDisk allow a slow disk, whose server continues meanwhile.
var (
	SmallDisk = Scope{Text: "3 new servers; 1 election, 2 transactions, 1 crash and restart, 1 slow disk",
		Servers: 3, Starts: first, Elections: 1, Txns: 2, Crashes: 1, Slow: 1}
	FullDisk = Scope{Text: "3 new servers; 1 election, 3 transactions, 1 crash and restart, 1 slow disk",
		Servers: 3, Starts: first, Elections: 1, Txns: 3, Crashes: 1, Slow: 1}
)

// SmallOneByOne and FullOneByOne acknowledge and commit one by one, as Apache's servers do.
var (
	SmallOneByOne = SmallDisk.oneByOne()
	FullOneByOne  = FullDisk.oneByOne()
)

func (s Scope) oneByOne() Scope {
	s.Text, s.OneByOne = s.Text+"; no cumulative link", true
	return s
}

// SmallReconfig adds servers 2 and 3 to server 1, which has just committed this change.
// FullReconfig changes {1, 2, 3} to {2, 4, 5}. Its leader has died: the new ensemble had
// committed a transaction after the reconfig, and no server that is up knows that.
var (
	SmallReconfig = Scope{Text: "{1} to {1, 2, 3}, the change in all logs; 1 election, 1 transaction, 1 pause beyond all limits",
		Servers: 3, Starts: []Start{{Logs: []int{1, 1, 1}, Shown: 1, Change: 1}}, Elections: 1, Txns: 1, Timeouts: 1,
		Old: []quorum.ID{1}, New: []quorum.ID{1, 2, 3}}
	FullReconfig = Scope{Text: "{1, 2, 3} to {2, 4, 5} in the logs of 3, 4, 5, server 2 dead; 1 election",
		Servers:   5,
		Starts:    []Start{{Logs: []int{1, 3, 2, 3, 3}, Shown: 3, Change: 2, Dead: []int{2}}},
		Elections: 1, Old: []quorum.ID{1, 2, 3}, New: []quorum.ID{2, 4, 5}}
)

// SmallSnapshot has a server whose snapshot contains a transaction that was never
// committed, so its log cannot be truncated there.
var (
	SmallSnapshot = Scope{Text: "3 servers, one with a snapshot that is ahead, 2 ways; 2 elections",
		Servers: 3, Starts: aheadSnapshot, Elections: 2}
	FullSnapshot = Scope{Text: "3 servers, one with a snapshot that is ahead, 2 ways; 2 elections, 1 transaction, 1 crash and restart",
		Servers: 3, Starts: aheadSnapshot, Elections: 2, Txns: 1, Crashes: 1}
	aheadSnapshot = []Start{{Logs: []int{1, 1, 2}, Shown: 1, Saved: []int{3}}, {Logs: []int{0, 0, 1}, Saved: []int{3}}}
)

// Epochs is the scope for a forgotten promise, which gives two leaders of one epoch.
var Epochs = Scope{Text: "3 new servers; 3 elections, 1 crash and restart, 1 broken connection",
	Servers: 3, Starts: first, Elections: 3, Crashes: 1, Resets: 1}

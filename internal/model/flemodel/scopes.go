package flemodel

import "github.com/conclave-project/conclave/internal/quorum"

// three and five are initial histories: all alike, or one or two servers ahead.
var (
	three = [][]uint32{{1, 1, 1}, {2, 1, 1}}
	five  = [][]uint32{{1, 1, 1, 1, 1}, {1, 1, 1, 2, 2}}
)

// Small and Full are three servers in every order. Links also makes connections again,
// which repeat their last message.
var (
	Links = Scope{Text: "3 servers, every order; 2 doubts, 1 pause, 1 connection made again",
		Servers: 3, Zxids: three, Delays: -1, Looks: 2, Ticks: 1, Repeats: 1}
	Small = Scope{Text: "3 servers, every order; 2 doubts, 1 forged message",
		Servers: 3, Zxids: three, Delays: -1, Looks: 2, Forged: 1}
	Full = Scope{Text: "3 servers, every order; 2 elections begun again, 1 crash and restart",
		Servers: 3, Zxids: three, Delays: -1, Looks: 2, Crashes: 1}
)

// SmallFive and FullFive are five servers; a few of their messages and starts are held back
// for any time.
var (
	SmallFive = Scope{Text: "5 servers, 1 held back", Servers: 5, Zxids: five, Delays: 1, Looks: 3}
	FullFive  = Scope{Text: "5 servers, two histories, 2 held back", Servers: 5, Zxids: five, Delays: 2, Looks: 3}
	// Stalls is the scope in which the two stalls of FLE were found.
	Stalls = Scope{Text: "5 servers, 2 held back", Servers: 5, Zxids: five[:1], Delays: 2, Looks: 3}
)

// reconfig returns the scope of a change of the ensemble {0, 1, 2}.
func reconfig(text string, delays int, next ...quorum.ID) Scope {
	return Scope{Text: text, Servers: 4, Zxids: [][]uint32{{1, 1, 1, 1}, {1, 1, 2, 2}}, Delays: delays, Looks: 2,
		Change: &Change{Next: next, Knows: [][]Knowledge{
			{Nothing, Nothing, Nothing, Logged},
			{Nothing, Nothing, Logged, Logged},
			{Nothing, Logged, Logged, Nothing},
			{Nothing, Logged, Logged, InForce},
			{Nothing, Logged, InForce, InForce},
			{Nothing, InForce, Logged, Nothing},
		}}}
}

// Changes of the ensemble: one server is added, or one replaces another.
var (
	SmallJoin    = reconfig("3 to 4 servers, 1 held back; who knows of it: 6 ways", 1, 0, 1, 2, 3)
	SmallReplace = reconfig("server 3 in place of 0, 1 held back; 6 ways", 1, 1, 2, 3)
	FullJoin     = reconfig("3 to 4 servers, 2 held back; who knows of it: 6 ways", 2, 0, 1, 2, 3)
	FullReplace  = reconfig("server 3 in place of 0, 2 held back; 6 ways", 2, 1, 2, 3)
)

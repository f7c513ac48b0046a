package lab

import "slices"

// Frame is a world in the form in which the page draws it.
type Frame struct {
	NowUs   int64    `json:"nowUs"`
	Servers []Server `json:"servers"`
	Flights []Flight `json:"flights"`
	// Cuts are the directions in which nothing arrives, as pairs of servers.
	Cuts  [][2]string `json:"cuts"`
	Rules []Rule      `json:"rules"`
	// Notes are the events since the last note that the caller has.
	Notes []Note `json:"notes"`
	Seen  int    `json:"seen"` // number of all notes
	Spec  string `json:"spec"`
	Done  int    `json:"done"` // number of actions of the spec that were carried out
}

// Server is the drawing of one server.
type Server struct {
	ID string `json:"id"`
	// Shape is "server", "store" or "resource".
	Shape string `json:"shape"`
	// State is "up", "paused" or "down".
	State string `json:"state"`
	// Role is the algorithm's own name: follower, candidate, leader, ...
	Role string `json:"role"`
	// Leads reports whether this server considers itself leader.
	Leads bool `json:"leads"`
	// Leader is the server that it follows, possibly itself; empty for none.
	Leader string `json:"leader"`
	// LeaseMs is what is left of its right to lead, LeaseOfMs the whole lease; 0 without a
	// lease.
	LeaseMs   int64 `json:"leaseMs"`
	LeaseOfMs int64 `json:"leaseOfMs"`
	// Vote is the server it votes for while it knows no leader; empty for none, and in
	// algorithms without votes.
	Vote string `json:"vote"`
	// Votes are the votes that it has in a fast leader election, including its own.
	Votes []Cast `json:"votes,omitempty"`
	// ClockPpm is by how many microseconds per second its clock is fast.
	ClockPpm int64   `json:"clockPpm"`
	Fields   []Field `json:"fields"`
	// Log contains the newest transactions, oldest first; nil in algorithms without a log.
	Log []Cell `json:"log"`
}

// Field is one of a server's values: term, vote, token, ...
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Cast is the vote of one server.
type Cast struct {
	From string `json:"from"`
	For  string `json:"for"`
}

// Cell is one transaction of a log.
type Cell struct {
	Zxid    string `json:"zxid"`
	Text    string `json:"text"`
	Durable bool   `json:"durable"` // it is on this server's disk
	Shown   bool   `json:"shown"`   // it was delivered to the tree
}

// Flight is a message on its way.
type Flight struct {
	Number    int    `json:"number"`
	From      string `json:"from"`
	To        string `json:"to"`
	Kind      string `json:"kind"`
	Text      string `json:"text"`
	SentUs    int64  `json:"sentUs"`
	ArrivesUs int64  `json:"arrivesUs"`
	// Lost says that it will not arrive: it stays where it was at LostUs.
	Lost   bool  `json:"lost"`
	LostUs int64 `json:"lostUs"`
}

// Rule is what must hold.
type Rule struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Promised is false for a property that the algorithm does not promise, however useful
	// it would be.
	Promised bool `json:"promised"`
	// Broken says how it was first broken, empty if it holds. Message is the number of the
	// last message sent by then.
	Broken  string `json:"broken"`
	AtUs    int64  `json:"atUs"`
	Message int    `json:"message"`
}

// NoteKind is the subject of a note.
type NoteKind string

// The kinds of notes.
const (
	NoteFault  NoteKind = "fault"  // something that was done to a server or a message
	NoteRole   NoteKind = "role"   // a server began or stopped leading or following
	NoteState  NoteKind = "state"  // something was stored, or a transaction delivered
	NoteBroken NoteKind = "broken" // a rule was broken
)

// Note is one event.
type Note struct {
	AtUs    int64    `json:"atUs"`
	Server  string   `json:"server"`
	Kind    NoteKind `json:"kind"`
	Text    string   `json:"text"`
	Message int      `json:"message"` // the number of the last message sent by then
}

// Frame returns the state of the world, and its notes from a number on.
func (w *World) Frame(since int) Frame {
	f := Frame{NowUs: w.nowUs, Spec: w.spec.String(), Done: w.done, Seen: len(w.notes), Flights: []Flight{}, Cuts: [][2]string{}}
	for _, s := range w.servers {
		f.Servers = append(f.Servers, s.view())
	}
	for _, one := range w.flights {
		if one.seenUntilUs() > w.nowUs {
			f.Flights = append(f.Flights, one.Flight)
		}
	}
	for _, a := range w.servers {
		for _, b := range w.servers {
			if w.cut[way{a.id, b.id}] {
				f.Cuts = append(f.Cuts, [2]string{a.id, b.id})
			}
		}
	}
	for _, r := range w.rules {
		f.Rules = append(f.Rules, *r)
	}
	f.Notes = slices.Clone(w.notes[min(max(since, 0), len(w.notes)):])
	return f
}

// view returns the drawing of a server.
func (s *server) view() Server {
	v := Server{ID: s.id, Shape: "server", State: "up", ClockPpm: s.ppm, Fields: []Field{}}
	switch {
	case s.part == nil:
		v.State = "down"
		return v
	case s.paused:
		v.State = "paused"
	}
	s.part.view(&v)
	return v
}

func (v *Server) field(name, value string) { v.Fields = append(v.Fields, Field{name, value}) }

// breaks marks a rule as broken, unless it is broken already (lab-B3).
func (w *World) breaks(rule *Rule, text string) {
	if rule.Broken != "" {
		return
	}
	rule.Broken, rule.AtUs, rule.Message = text, w.nowUs, w.sent
	w.note(nil, NoteBroken, "%s: %s", rule.ID, text)
}

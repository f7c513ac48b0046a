package lab

import "slices"

// How long a message is on its way, in microseconds.
const (
	delayMinUs = 30_000
	delayMaxUs = 60_000
)

// flight is a message on its way.
type flight struct {
	Flight
	over    bool // it has arrived, or never will
	version int  // incremented when its arrival is postponed
	deliver func()
	lost    func() // called when it will not arrive; may be nil
}

// catch is what will happen to the next message in a direction.
type catch struct {
	way
	verb string
	us   int64
}

// delayUs draws how long a message travels.
func (w *World) delayUs() int64 { return w.random.between(delayMinUs, delayMaxUs) }

// send sends a message that may be lost or overtaken. If the receiver is down, the message
// arrives if the server has started by then. It is lost if the receiver dies while it is on
// its way.
func (s *server) send(to *server, kind, text string, payload any) {
	w, from, life := s.w, s, to.life
	if to.part == nil {
		life++
	}
	var f *flight
	f = w.fly(way{s.id, to.id}, kind, text, w.nowUs+w.delayUs(), func() {
		if to.life == life && to.part != nil {
			to.hand(func() { to.part.receive(from, payload) })
			return
		}
		f.Lost, f.LostUs = true, w.nowUs
	}, nil)
	if w.cut[way{s.id, to.id}] {
		w.lose(f)
	}
}

// fly puts a message on its way.
func (w *World) fly(on way, kind, text string, arrivesUs int64, deliver, lost func()) *flight {
	w.sent++
	w.stepped = true
	f := &flight{Flight: Flight{Number: w.sent, From: on.from, To: on.to, Kind: kind, Text: text, SentUs: w.nowUs, ArrivesUs: arrivesUs},
		deliver: deliver, lost: lost}
	w.flights = append(w.flights, f)
	w.land(f)
	for i, c := range w.caught {
		if c.way == on {
			w.caught = slices.Delete(w.caught, i, i+1)
			w.befall(f, c.verb, c.us)
			break
		}
	}
	return f
}

// land schedules the arrival of a message.
func (w *World) land(f *flight) {
	version := f.version
	w.at(f.ArrivesUs, func() {
		if f.over || f.version != version {
			return
		}
		f.over = true
		w.stepped = true
		f.deliver()
	})
}

// fadeUs is how long a lost message is drawn.
const fadeUs = 40_000

// lose loses a message. If it was sent at this moment, it is drawn up to half of its way.
func (w *World) lose(f *flight) {
	if f.over {
		return
	}
	f.over, f.Lost = true, true
	f.LostUs = w.nowUs
	if f.SentUs == w.nowUs {
		f.LostUs += (f.ArrivesUs - f.SentUs) / 2
	}
	if f.lost != nil {
		f.lost()
	}
}

// befall does something to a message: drop, delay or repeat.
func (w *World) befall(f *flight, verb string, us int64) {
	switch verb {
	case "drop":
		w.note(w.find(f.From), NoteFault, "message %d to %s is dropped", f.Number, f.To)
		w.lose(f)
	case "delay":
		w.note(w.find(f.From), NoteFault, "message %d to %s is delayed by %d ms", f.Number, f.To, us/1000)
		f.version++
		f.ArrivesUs += us
		w.land(f)
	case "repeat":
		w.note(w.find(f.From), NoteFault, "message %d to %s is repeated", f.Number, f.To)
		w.fly(way{f.From, f.To}, f.Kind, f.Text, f.ArrivesUs+w.delayUs(), f.deliver, nil)
	}
}

// seenUntilUs returns until when a message is drawn.
func (f *flight) seenUntilUs() int64 {
	if f.Lost {
		return f.LostUs + fadeUs
	}
	return f.ArrivesUs
}

// connected reports whether two servers reach each other in both directions.
func (w *World) connected(a, b string) bool { return !w.cut[way{a, b}] && !w.cut[way{b, a}] }

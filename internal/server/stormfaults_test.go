package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

func (w *ensembleStorm) any() *machine { return w.machines[1+w.random.IntN(stormMachines)] }

func (w *ensembleStorm) leader() *machine {
	for _, m := range w.machines[1:] {
		if m.s != nil && m.s.Leads() {
			return m
		}
	}
	return nil
}

// fault breaks something, or heals.
func (w *ensembleStorm) fault() {
	a, b := w.any(), w.any()
	if w.random.IntN(100) == 0 {
		w.Say("peace")
		time.Sleep(70 * time.Second) // by then messages have lost their effect
	}
	switch w.random.IntN(15) {
	case 0, 1:
		if a = w.leader(); a == nil {
			return
		}
		w.Say("kill leader %d", a.id)
		w.kill(a)
	case 2:
		switch {
		case a.s == nil:
		case w.random.IntN(4) == 0:
			w.Say("stop %d", a.id)
			w.halt(a)
		default:
			w.Say("kill %d", a.id)
			w.kill(a)
		}
	case 3, 4:
		for _, m := range w.machines[1:] {
			if m.s == nil {
				w.Say("start %d", m.id)
				w.boot(m)
			}
		}
	case 5:
		w.Say("reset %d and %d", a.id, b.id)
		w.net.Reset(func(from, to int) bool { return from == a.id && to == b.id || from == b.id && to == a.id })
	case 6:
		w.Say("cut %d from %d", a.id, b.id)
		w.net.Cut(a.id, b.id, true)
	case 7:
		w.isolate(a)
		if w.random.IntN(2) == 0 {
			w.Say("reset all programs, which may go to %d", a.id)
			w.net.Reset(func(from, to int) bool { return from >= programMachine || to >= programMachine })
		}
	case 8:
		w.Say("heal")
		w.net.Heal()
	case 9:
		if s, d := a.s, time.Duration(w.random.IntN(3000))*time.Millisecond; s != nil {
			w.Say("pause %d for %v", a.id, d)
			go s.inspect(func(*replica.Replica) { time.Sleep(d) })
		}
	case 10:
		p := w.programs[w.random.IntN(stormPrograms)]
		w.Say("cut %d from the program of %d", a.id, p.machine)
		w.net.Cut(a.id, p.machine, w.random.IntN(2) == 0)
		w.net.Cut(p.machine, a.id, true)
	case 11:
		p := w.programs[w.random.IntN(stormPrograms)]
		w.Say("isolate the program of %d", p.machine)
		for _, m := range w.machines[1:] {
			w.net.Cut(m.id, p.machine, true)
			w.net.Cut(p.machine, m.id, true)
		}
	case 12:
		w.strand(w.programs[w.random.IntN(stormPrograms)], a)
	default:
		w.change()
	}
}

// strand puts a program at a server that is behind: it gets there before or after the others
// are gone.
func (w *ensembleStorm) strand(p *program, a *machine) {
	w.Say("leave %d alone to the program of %d", a.id, p.machine)
	before := w.random.IntN(4) > 0
	if !before {
		w.isolate(a)
		time.Sleep(time.Duration(w.random.IntN(400)) * time.Millisecond)
	}
	for _, m := range w.machines[1:] {
		w.net.Cut(m.id, p.machine, m != a)
		w.net.Cut(p.machine, m.id, m != a)
	}
	w.net.Reset(func(from, to int) bool { return from == p.machine || to == p.machine })
	time.Sleep(time.Duration(w.random.IntN(1000)) * time.Millisecond)
	if before {
		w.isolate(a)
		time.Sleep(time.Duration(w.random.IntN(1000)) * time.Millisecond)
	}
}

// isolate cuts a server off from all others, but not from the programs.
func (w *ensembleStorm) isolate(a *machine) {
	w.Say("isolate %d", a.id)
	for _, m := range w.machines[1:] {
		w.net.Cut(a.id, m.id, true)
		w.net.Cut(m.id, a.id, true)
	}
}

// change requests other roles for some machines, in the background, until they are in force.
func (w *ensembleStorm) change() {
	select {
	case <-w.decided:
	default:
		return
	}
	var steps []roles
	for steps == nil {
		steps = w.plan.steps(w.random, w.anchor)
	}
	next := steps[len(steps)-1]
	w.Say("reconfig %v", steps)
	w.plan, w.decided = next, make(chan struct{})
	from := 1 + w.random.IntN(stormMachines)
	go func(decided chan struct{}) {
		defer close(decided)
		for _, step := range steps {
			for w.stopped.Err() == nil && !w.ask(from, step) {
				time.Sleep(50 * time.Millisecond)
				from = from%stormMachines + 1
			}
		}
	}(w.decided)
}

// ask requests a change from a server, and reports whether it is in force there.
func (w *ensembleStorm) ask(at int, r roles) bool {
	c, err := w.connect(at)
	if err != nil {
		return false
	}
	defer c.socket.Close()
	_, res, err := c.do(zk.Request{Op: zk.OpGetData, Path: zk.ConfigPath})
	if err != nil {
		return false
	}
	if now, err := ensemble.Parse(string(res.Data)); err == nil && rolesOf(now) == r {
		return true
	}
	members := strings.Join(r.lines(), ",")
	code, _, err := c.do(zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, NewMembers: &members}})
	if err == nil && code != zk.OK && code != zk.ErrNewConfigNoQuorum && code != zk.ErrReconfigInProgress {
		w.Breach("reconfig to %v: %v", r, code)
	}
	return false // the next one looks
}

// write creates one znode after another, wherever a server answers.
func (w *ensembleStorm) write() {
	var c *wiredClient
	at := 1
	for n := 0; w.stopped.Err() == nil; time.Sleep(30 * time.Millisecond) {
		if c == nil {
			var err error
			if c, err = w.connect(at); err != nil {
				at = at%stormMachines + 1
				continue
			}
		}
		n++
		path := fmt.Sprintf("/n%d", n)
		code, _, err := c.do(create(path, "", zk.Persistent))
		if err != nil {
			c.socket.Close()
			c, at = nil, at%stormMachines+1
			continue
		}
		if code != zk.OK {
			w.Breach("create %s: %v", path, code)
		}
		w.mu.Lock()
		w.acknowledged = append(w.acknowledged, path)
		w.mu.Unlock()
	}
	if c != nil {
		c.socket.Close()
	}
}

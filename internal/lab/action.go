package lab

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Limits of a spec.
const (
	ServersMin, ServersMax = 3, 9
	// ActionsMax is the largest number of actions in a spec, and EndUs the length of a run.
	ActionsMax = 500
	EndUs      = 600_000_000
)

// Spec determines a run (lab-B1).
type Spec struct {
	Algorithm string
	Servers   int
	Seed      uint64
	Actions   []Action // in the order of their times
}

// Action is a user's action on the servers, the network or the clocks.
type Action struct {
	AtUs int64
	Verb string
	Args []string
}

// keys are the keys in a URL. The last two are used by the page: the time that is shown,
// and the scenario.
var keys = []string{"alg", "servers", "seed", "do", "at", "scenario"}

// ParseSpec parses a spec in the form of String, the part of the laboratory's URLs after
// the "#":
//
//	alg=raft&servers=5&seed=7&do=1200:kill:s1,1800.5:cut:s1:s2
//
// Times are in milliseconds. The defaults are raft, 5 servers, seed 1 and no actions.
func ParseSpec(text string) (Spec, error) {
	spec := Spec{Algorithm: "raft", Servers: 5, Seed: 1}
	values, err := url.ParseQuery(strings.TrimPrefix(text, "#"))
	if err != nil {
		return spec, fmt.Errorf("this is not a run of the laboratory: %w", err)
	}
	for key := range values {
		if !slices.Contains(keys, key) {
			return spec, fmt.Errorf("a run has no key %q: choose from %s", key, strings.Join(keys, ", "))
		}
	}
	if value := values.Get("alg"); value != "" {
		spec.Algorithm = value
	}
	if value := values.Get("servers"); value != "" {
		if spec.Servers, err = strconv.Atoi(value); err != nil {
			return spec, fmt.Errorf("servers=%s is not a number", value)
		}
	}
	if value := values.Get("seed"); value != "" {
		if spec.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			return spec, fmt.Errorf("seed=%s is not a number of 0 or more", value)
		}
	}
	if value := values.Get("do"); value != "" {
		for one := range strings.SplitSeq(value, ",") {
			action, err := parseAction(one)
			if err != nil {
				return spec, err
			}
			spec.Actions = append(spec.Actions, action)
		}
	}
	return spec.validate()
}

func parseAction(text string) (Action, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return Action{}, fmt.Errorf("action %q: write TIME:VERB:ARGUMENT..., the time in milliseconds", text)
	}
	whole, fraction, _ := strings.Cut(parts[0], ".")
	atMs, err := strconv.ParseUint(whole, 10, 63) // ParseUint accepts no sign
	us := uint64(0)
	if err == nil && fraction != "" {
		us, err = strconv.ParseUint((fraction + "00")[:3], 10, 63)
	}
	if err != nil || atMs > EndUs/1000 || len(fraction) > 3 {
		return Action{}, fmt.Errorf("action %q: its time must be 0 to %d milliseconds, with at most three digits after the point", text, EndUs/1000)
	}
	a := Action{AtUs: int64(atMs*1000 + us), Verb: parts[1], Args: parts[2:]}
	return a, a.validate()
}

// alphabet is the set of characters in the parts of an action, none of which needs quoting
// in a URL.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

func (a Action) validate() error {
	for _, part := range append([]string{a.Verb}, a.Args...) {
		if part == "" || len(part) > partMax || strings.Trim(part, alphabet) != "" {
			return fmt.Errorf("%q: a part of an action has 1 to %d letters, digits, points, - and _", part, partMax)
		}
	}
	return nil
}

// partMax is the largest size of a part of an action, in bytes.
const partMax = 40

// validate refuses a spec that does not describe a world. It sets no defaults.
func (s Spec) validate() (Spec, error) {
	if _, known := algorithms[s.Algorithm]; !known {
		return s, fmt.Errorf("alg=%s: choose from %s", s.Algorithm, strings.Join(Algorithms(), ", "))
	}
	if s.Servers < ServersMin || s.Servers > ServersMax {
		return s, fmt.Errorf("servers=%d: must be %d to %d", s.Servers, ServersMin, ServersMax)
	}
	if len(s.Actions) > ActionsMax {
		return s, fmt.Errorf("%d actions: at most %d are allowed", len(s.Actions), ActionsMax)
	}
	if !slices.IsSortedFunc(s.Actions, func(a, b Action) int { return cmp.Compare(a.AtUs, b.AtUs) }) {
		return s, errors.New("the actions are not in the order of their times")
	}
	return s, nil
}

// String returns the spec in the form that ParseSpec parses.
func (s Spec) String() string {
	text := fmt.Sprintf("alg=%s&servers=%d&seed=%d", s.Algorithm, s.Servers, s.Seed)
	for i, a := range s.Actions {
		text += map[bool]string{true: "&do=", false: ","}[i == 0] + a.String()
	}
	return text
}

// String returns the action in the form of a spec.
func (a Action) String() string {
	text := strconv.FormatInt(a.AtUs/1000, 10)
	if us := a.AtUs % 1000; us != 0 {
		text += fmt.Sprintf(".%03d", us)
	}
	text += ":" + a.Verb
	for _, arg := range a.Args {
		text += ":" + arg
	}
	return text
}

// Do carries out an action now, and adds it to the spec. Later actions of the spec are
// dropped. If the action is not possible, Do changes nothing and returns an error.
func (w *World) Do(verb string, args ...string) error {
	a := Action{AtUs: w.nowUs, Verb: verb, Args: args}
	if w.done >= ActionsMax {
		return fmt.Errorf("at most %d actions are allowed", ActionsMax)
	}
	if err := a.validate(); err != nil {
		return err
	}
	if err := w.carryOut(a); err != nil {
		return err
	}
	w.spec.Actions = append(slices.Clone(w.spec.Actions[:w.done]), a)
	w.done++
	return nil
}

// common are the actions that all algorithms know, with the number of their arguments.
var common = map[string]struct {
	args int
	do   func(w *World, a Action) error
}{
	"kill":       {1, (*World).doKill},
	"start":      {1, (*World).doStart},
	"pause":      {1, (*World).doPause},
	"resume":     {1, (*World).doResume},
	"wipe":       {1, (*World).doWipe},
	"cut":        {2, (*World).doCut},
	"heal":       {2, (*World).doHeal},
	"healall":    {0, (*World).doHealAll},
	"part":       {1, (*World).doPart},
	"clock":      {2, (*World).doClock},
	"drop":       {1, (*World).doMessage},
	"repeat":     {1, (*World).doMessage},
	"delay":      {2, (*World).doMessage},
	"dropnext":   {2, (*World).doNext},
	"repeatnext": {2, (*World).doNext},
	"delaynext":  {3, (*World).doNext},
}

// carryOut carries out an action.
func (w *World) carryOut(a Action) error {
	c, known := common[a.Verb]
	var err error
	switch {
	case !known:
		if known, err = w.system.do(a); !known {
			err = fmt.Errorf("no action is called %q", a.Verb)
		}
	case len(a.Args) != c.args:
		err = fmt.Errorf("%s takes %d arguments", a.Verb, c.args)
	default:
		err = c.do(w, a)
	}
	return err
}

// server returns the server that an action names.
func (w *World) server(id string) (*server, error) {
	if s := w.find(id); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("no server is called %q", id)
}

// with calls a function with the server of an action if the server is in the right state.
func (w *World) with(a Action, state string, do func(s *server)) error {
	s, err := w.server(a.Args[0])
	if err != nil {
		return err
	}
	if now := s.view().State; now != state && (state != "alive" || now == "down") {
		return fmt.Errorf("%s is %s", s.id, now)
	}
	do(s)
	return nil
}

func (w *World) doKill(a Action) error   { return w.with(a, "alive", w.kill) }
func (w *World) doStart(a Action) error  { return w.with(a, "down", w.start) }
func (w *World) doResume(a Action) error { return w.with(a, "paused", w.resume) }

func (w *World) doPause(a Action) error {
	return w.with(a, "up", func(s *server) {
		s.paused = true
		w.note(s, NoteFault, "is paused")
	})
}

func (w *World) doWipe(a Action) error {
	return w.with(a, "down", func(s *server) {
		w.system.wipe(s)
		w.note(s, NoteFault, "loses its disk")
	})
}

func (w *World) doCut(a Action) error { return w.wayOf(a, true, "reaches %s no more") }

func (w *World) doHeal(a Action) error { return w.wayOf(a, false, "reaches %s again") }

func (w *World) wayOf(a Action, cut bool, text string) error {
	from, to, err := w.ends(a)
	if err != nil {
		return err
	}
	w.note(from, NoteFault, text, to.id)
	w.setCut(way{from.id, to.id}, cut)
	return nil
}

// ends returns the two servers of the direction that an action names.
func (w *World) ends(a Action) (from, to *server, err error) {
	if from, err = w.server(a.Args[0]); err != nil {
		return nil, nil, err
	}
	if to, err = w.server(a.Args[1]); err != nil {
		return nil, nil, err
	}
	if from == to {
		return nil, nil, fmt.Errorf("%s sends nothing to itself", from.id)
	}
	return from, to, nil
}

// setCut partitions a direction or heals it. Messages on their way in a partitioned
// direction are lost.
func (w *World) setCut(on way, cut bool) {
	if !cut {
		delete(w.cut, on)
		return
	}
	w.cut[on] = true
	for _, f := range slices.Clone(w.flights) {
		if f.From == on.from && f.To == on.to {
			w.lose(f)
		}
	}
}

func (w *World) doHealAll(Action) error {
	w.note(nil, NoteFault, "all servers reach each other again")
	clear(w.cut)
	return nil
}

// doPart partitions the named servers, which are separated by points, from all others.
func (w *World) doPart(a Action) error {
	group := strings.Split(a.Args[0], ".")
	for _, id := range group {
		if _, err := w.server(id); err != nil {
			return err
		}
	}
	w.note(nil, NoteFault, "a partition: %s on one side", strings.Join(group, ", "))
	for _, s := range w.servers {
		for _, t := range w.servers {
			if slices.Contains(group, s.id) != slices.Contains(group, t.id) {
				w.setCut(way{s.id, t.id}, true)
			}
		}
	}
	return nil
}

// clockPpmMax is the most by which a clock may be fast or slow: a tenth.
const clockPpmMax = 100_000

func (w *World) doClock(a Action) error {
	ppm, err := strconv.ParseInt(a.Args[1], 10, 64)
	if err != nil || ppm < -clockPpmMax || ppm > clockPpmMax {
		return fmt.Errorf("a clock may gain %d to %d microseconds per second", -clockPpmMax, clockPpmMax)
	}
	s, err := w.server(a.Args[0])
	if err != nil {
		return err
	}
	s.gainUs += (w.nowUs - s.startUs) * s.ppm / 1_000_000
	s.startUs, s.ppm = w.nowUs, ppm
	w.note(s, NoteFault, "its clock gains %d ms in a second", ppm/1000)
	s.schedule()
	return nil
}

func (w *World) doMessage(a Action) error {
	number, err := strconv.Atoi(a.Args[0])
	if err != nil {
		return fmt.Errorf("%q is not the number of a message", a.Args[0])
	}
	us, err := delayOf(a.Args[1:])
	if err != nil {
		return err
	}
	for _, f := range w.flights {
		if f.Number == number && !f.over {
			w.befall(f, a.Verb, us)
			return nil
		}
	}
	return fmt.Errorf("message %d is not on its way", number)
}

func (w *World) doNext(a Action) error {
	if _, _, err := w.ends(a); err != nil {
		return err
	}
	us, err := delayOf(a.Args[2:])
	if err != nil {
		return err
	}
	w.caught = append(w.caught, catch{way{a.Args[0], a.Args[1]}, strings.TrimSuffix(a.Verb, "next"), us})
	return nil
}

// delayOf parses milliseconds.
func delayOf(args []string) (us int64, err error) {
	if len(args) == 0 {
		return 0, nil
	}
	ms, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || ms < 1 || ms > 60_000 {
		return 0, errors.New("a delay must be 1 to 60,000 ms")
	}
	return ms * 1000, nil
}

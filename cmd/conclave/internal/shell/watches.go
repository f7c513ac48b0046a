package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// watchKind is the purpose of a watch. As in Java's client, a path has at most one watch of
// each kind.
type watchKind byte

const (
	dataWatch watchKind = iota
	childWatch
	persistentWatch
	recursiveWatch
	besideWatch // of watch -b
)

type watchKey struct {
	path string
	kind watchKind
}

// watching is a watch together with the goroutine that prints its events.
type watching struct {
	w     *client.Watch
	asked chan chan struct{} // the goroutine prints all events that it has, then closes the channel it received
	ended chan struct{}
}

// toldMax is how many events are remembered, so an event that fires two watches is printed
// once.
const toldMax = 64

// keep has the events of a watch printed. It replaces an earlier watch with the same key.
func (s *Shell) keep(w *client.Watch, key watchKey) {
	one := &watching{w, make(chan chan struct{}), make(chan struct{})}
	s.mu.Lock()
	old := s.watches[key]
	s.watches[key] = one
	s.mu.Unlock()
	if old != nil {
		old.w.Close()
	}
	s.group.Go(func() {
		defer close(one.ended)
		s.printAll(one, key.kind)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.watches[key] == one {
			delete(s.watches, key)
		}
	})
}

// printAll prints the events of a watch until it ends.
func (s *Shell) printAll(one *watching, kind watchKind) {
	for {
		select {
		case e, ok := <-one.w.Events():
			if !ok {
				return
			}
			s.event(e, kind)
		case printed := <-one.asked:
			open := true
			for open && len(one.w.Events()) > 0 {
				var e zk.Event
				if e, open = <-one.w.Events(); open {
					s.event(e, kind)
				}
			}
			close(printed)
		}
	}
}

// printEvents waits until all events that have arrived so far are printed.
func (s *Shell) printEvents() {
	s.mu.Lock()
	var all []*watching
	for _, one := range s.watches {
		all = append(all, one)
	}
	s.mu.Unlock()
	for _, one := range all {
		printed := make(chan struct{})
		select {
		case one.asked <- printed:
			<-printed
		case <-one.ended:
		}
	}
}

// event prints an event, unless it was printed for another watch.
func (s *Shell) event(e zk.Event, kind watchKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind != besideWatch {
		if e.Zxid > 0 && slices.Contains(s.told[:], e) || !s.printing {
			return
		}
		s.told[s.toldNext] = e
		s.toldNext = (s.toldNext + 1) % toldMax
	}
	text := eventText(e)
	if kind == besideWatch {
		text = changeText(e)
	}
	_, _ = s.out.WriteString(s.paint(cyan, strings.TrimSuffix(text, "\n")) + "\n")
	_ = s.out.Flush()
}

// eventText returns an event as zkCli.sh prints it.
func eventText(e zk.Event) string {
	if e.Type == zk.EventNone {
		return "\nWATCHER::\n\nevents of " + cli.Visible(e.Path) + " may be missing here, because the connection was lost\n"
	}
	return fmt.Sprintf("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:%s path:%s zxid: %d\n", e.Type, cli.Visible(e.Path), int64(e.Zxid))
}

// changeText returns an event on one line, with the time of its arrival.
func changeText(e zk.Event) string {
	at := time.Now().Format("15:04:05.000")
	if e.Type == zk.EventNone {
		return at + " events of " + cli.Visible(e.Path) + " may be missing here, because the connection was lost"
	}
	return at + " " + e.Type.String() + " " + cli.Visible(e.Path)
}

func runAddWatch(ctx context.Context, s *Shell, in *input) error {
	mode, kind := zk.WatchPersistentRecursive, recursiveWatch
	switch text, given := in.set["m"]; {
	case text == "PERSISTENT":
		mode, kind = zk.WatchPersistent, persistentWatch
	case given && text != "PERSISTENT_RECURSIVE":
		return usage{in.of}
	}
	return s.addWatch(ctx, s.path(in.arg(0)), mode, kind)
}

func (s *Shell) addWatch(ctx context.Context, at string, mode zk.WatchMode, kind watchKind) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	w, err := conn.Watch(ctx, at, mode)
	if err != nil {
		return explain(err, at)
	}
	s.keep(w, watchKey{at, kind})
	return nil
}

func runRemoveWatches(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at, which, kinds := s.path(in.arg(0)), zk.WatcherAny, []watchKind{dataWatch, childWatch, persistentWatch, recursiveWatch}
	switch {
	case in.has("c"):
		which, kinds = zk.WatcherChildren, []watchKind{childWatch}
	case in.has("d"):
		which, kinds = zk.WatcherData, []watchKind{dataWatch}
	}
	s.printEvents() // events that came before the removal
	err = conn.RemoveWatches(ctx, at, which)
	if err == nil || !in.has("l") || errors.Is(err, zk.ErrNoWatcher) {
		return explain(err, at)
	}
	for _, kind := range kinds {
		s.unkeep(watchKey{at, kind})
	}
	return nil
}

// unkeep stops printing the events of a watch, and reports whether there was one.
func (s *Shell) unkeep(key watchKey) bool {
	s.mu.Lock()
	one := s.watches[key]
	s.mu.Unlock()
	if one == nil {
		return false
	}
	one.w.Close()
	<-one.ended
	return true
}

func runPrintWatches(_ context.Context, s *Shell, in *input) error {
	s.mu.Lock()
	now := map[bool]string{true: "on", false: "off"}[s.printing]
	switch in.arg(0) {
	case "on", "off":
		s.printing = in.arg(0) == "on"
	}
	s.mu.Unlock()
	if len(in.args) == 0 {
		s.println("printwatches is " + now)
	} else if in.arg(0) != "on" && in.arg(0) != "off" {
		return usage{in.of}
	}
	return nil
}

// runWatch prints changes until it is interrupted, or has them printed beside the prompt.
func runWatch(ctx context.Context, s *Shell, in *input) error {
	count, err := in.number("n", 10, 0)
	if err != nil || count < 0 {
		return errors.Join(err, usage{in.of})
	}
	mode := zk.WatchPersistent
	if in.has("r") {
		mode = zk.WatchPersistentRecursive
	}
	at := s.path(in.arg(0))
	if in.has("b") {
		return s.addWatch(ctx, at, mode, besideWatch)
	}
	conn, asking, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	w, err := conn.Watch(asking, at, mode)
	cancel()
	if err != nil {
		return explain(err, at)
	}
	defer w.Close()
	s.remark("watching %s: Ctrl-C ends it", cli.Visible(at))
	for n := int64(1); ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events():
			if !ok {
				return explain(w.Err(), at)
			}
			s.event(e, besideWatch)
			if n == count {
				return nil
			}
		}
	}
}

func runUnwatch(_ context.Context, s *Shell, in *input) error {
	if len(in.args) > 0 {
		at := s.path(in.arg(0))
		if !s.unkeep(watchKey{at, besideWatch}) {
			return fmt.Errorf("nothing watches %s", cli.Visible(at))
		}
		return nil
	}
	s.mu.Lock()
	var all []watchKey
	for key := range s.watches {
		if key.kind == besideWatch {
			all = append(all, key)
		}
	}
	s.mu.Unlock()
	for _, key := range all {
		s.unkeep(key)
	}
	return nil
}

package recipes_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
	"github.com/conclave-project/conclave/internal/bubble"
)

// stays is how long a znode may remain after a program has given it up, or after its session has
// ended, while somebody leads the servers.
const stays = 10 * time.Second

// checkParty checks that enough programs may have been there since the one that has entered made
// its call, unless one of them had entered before. A program that gave up and came again counts
// twice while both of its znodes are there.
func (w *recipesStorm) checkParty(entered *span) {
	w.mu.Lock()
	there, begun := 0, false
	for _, s := range w.parties {
		if s.to.IsZero() || s.to.After(entered.from) || s.stays && (s.to.Add(stays).After(entered.from) || w.unled.Add(stays).After(entered.from)) {
			there++
			begun = begun || s.entered
		}
	}
	entered.entered = true
	w.mu.Unlock()
	if there < w.partySize && !begun {
		w.Breach("%s has entered the double barrier, and only %d were there", entered.who, there)
	}
}

// judge checks everything that was done, once all of it is.
func (w *recipesStorm) judge() {
	c, err := client.Dial(w.t.Context(), w.ensemble.Addresses(), client.Options{Clock: bubble.Clock(1), Dialer: w.ensemble.Net.Dialer(firstMachine - 1)})
	if err != nil {
		w.Breach("nobody serves at the end: %v", err)
		return
	}
	defer c.Close()
	time.Sleep(10 * time.Second) // sessions that could not be closed expire
	w.judgeLocks()
	w.judgeQueue(c)
	value, err := recipes.NewCounter(c, stormCounter, recipes.Options{}).Value(w.t.Context())
	if n := int64(len(w.counted)); err != nil || value < n || value > n+w.unsure {
		w.Breach("the counter has %d (%v) after %d and perhaps %d", value, err, n, w.unsure)
	}
	for _, dir := range []string{stormLock, stormRW, stormParty} {
		if names, _, _ := c.Children(w.t.Context(), dir); len(names) > 0 {
			w.Breach("%q are left in %s", names, dir)
		}
	}
}

// judgeLocks looks for two programs that held a lock at the same time, and for tokens that went
// back.
func (w *recipesStorm) judgeLocks() {
	slices.SortStableFunc(w.spans, func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.of, b.of), a.from.Compare(b.from), cmp.Compare(a.token, b.token))
	})
	for i, after := range w.spans {
		for _, before := range w.spans[:i] {
			if before.of != after.of || before.shared && after.shared {
				continue
			}
			if before.to.After(after.from) {
				w.Breach("%s had %s (token %d) beside %s (token %d) for %v", after.who, after.of, after.token,
					before.who, before.token, min(before.to.Sub(after.from), time.Hour))
			}
			if before.token >= after.token {
				w.Breach("%s had token %d of %s after %d of %s", after.who, after.token, after.of, before.token, before.who)
			}
		}
	}
	slices.SortFunc(w.writes, func(a, b write) int { return cmp.Compare(a.version, b.version) })
	for i, after := range w.writes {
		if i > 0 && after.token < w.writes[i-1].token {
			w.Breach("what was written with token %d came after %d", after.token, w.writes[i-1].token)
		}
	}
}

// judgeQueue takes out what is left, and checks what has become of each item.
func (w *recipesStorm) judgeQueue(c *client.Client) {
	names, _, err := c.Children(w.t.Context(), stormQueue)
	if err != nil {
		w.Breach("the queue: %v", err)
	}
	for range names {
		item, err := recipes.NewQueue(c, stormQueue, recipes.Options{}).Take(w.t.Context())
		if err != nil {
			w.Breach("the queue: %v", err)
			return
		}
		w.taken[string(item)] = append(w.taken[string(item)], client.Applied)
	}
	for item, put := range w.put {
		sure, perhaps := 0, 0
		for _, taken := range w.taken[item] {
			if taken == client.Applied {
				sure++
			} else {
				perhaps++
			}
		}
		switch {
		case sure > 1:
			w.Breach("item %s was taken out %d times", item, sure)
		case put == client.Applied && sure+perhaps == 0:
			w.Breach("item %s is lost", item)
		case put == client.NotApplied && sure+perhaps > 0:
			w.Breach("item %s was not put in, and taken out", item)
		}
	}
}

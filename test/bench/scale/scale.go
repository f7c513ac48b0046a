//go:build linux

package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/servers"
)

// Options select what to measure.
type Options struct {
	// Parts are some names of Parts; empty means all.
	Parts []string

	// Full uses the sizes of the aims instead of smaller ones that are quick.
	Full bool

	// Config are additional lines of zoo.cfg for every server.
	Config []string

	// Progress is called with what is being measured.
	Progress func(what string)
}

// A part is one subject with its sizes.
type part struct {
	name, title string
	measure     func(ctx context.Context, b *bench, t *Table) error
}

var parts = []part{
	{"sessions", "Sessions", sessions},
	{"watches", "Watches", watches},
	{"trees", "Trees and directories", trees},
	{"ensembles", "Ensembles", ensembles},
	{"cores", "Cores", cores},
	{"tenants", "Tenants: a quiet client beside a noisy one", tenants},
}

// Parts returns the names of all parts.
func Parts() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// Validate returns an error that says what is wrong with the options.
func (o *Options) Validate() error {
	for _, name := range o.Parts {
		if !slices.Contains(Parts(), name) {
			return fmt.Errorf("scale: no part %q: say some of %s", name, strings.Join(Parts(), ","))
		}
	}
	return nil
}

// Run measures the chosen parts and passes each table to out when it is complete.
func Run(ctx context.Context, o Options, out func(*Table)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	b := &bench{Options: o}
	for _, p := range parts {
		if len(o.Parts) > 0 && !slices.Contains(o.Parts, p.name) {
			continue
		}
		t := &Table{Part: p.name, Title: p.title}
		err := p.measure(ctx, b, t)
		out(t) // what was measured before an error is valid
		if err != nil {
			return fmt.Errorf("scale: %s: %w", p.name, err)
		}
	}
	return nil
}

// A bench is the state that the parts share.
type bench struct{ Options }

func (b *bench) say(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// sizes returns the sizes of a curve: full with Options.Full, else soon.
func (b *bench) sizes(soon, full []int) []int {
	if b.Full {
		return full
	}
	return soon
}

// size is sizes for a single size.
func (b *bench) size(soon, full int) int { return b.sizes([]int{soon}, []int{full})[0] }

// config returns the configuration of every server: sessions may last an hour, so a crowd
// need not send heartbeats.
func (b *bench) config(more ...string) []string {
	return append(append([]string{"tickTime=2000", "maxSessionTimeout=3600000"}, more...), b.Config...)
}

// server runs f with a fresh server.
func (b *bench) server(ctx context.Context, o servers.Options, f func(*servers.Server) error) error {
	o.Config, o.StartWithin = b.config(o.Config...), 5*time.Minute
	s, err := servers.Start(ctx, servers.Conclave(), o)
	if err != nil {
		return err
	}
	defer s.Kill()
	if err := f(s); err != nil {
		return fmt.Errorf("%w\n%s", err, s.LogTail(2000))
	}
	return nil
}

// ensemble runs f with a fresh ensemble and its leader.
func (b *bench) ensemble(ctx context.Context, o servers.EnsembleOptions, participants, observers int, f func(e *servers.Ensemble, leader *servers.Member) error) error {
	o.Kinds = slices.Repeat([]servers.Kind{servers.Conclave()}, participants+observers)
	for n := range observers {
		o.Observers = append(o.Observers, participants+n+1)
	}
	o.Config, o.StartWithin = b.config(o.Config...), 2*time.Minute
	return servers.WithEnsemble(ctx, o, f)
}

// load runs a load on servers for a while.
func load(ctx context.Context, o loadgen.Options) (*loadgen.Result, error) {
	r, err := loadgen.Run(ctx, o)
	if err == nil && r.Refused > 0 {
		err = fmt.Errorf("%s: %d of %d operations refused, the first with %q", o.Workload, r.Refused, r.Operations, r.FirstCode)
	}
	return r, err
}

// Time limits for waiting until memory use is stable.
const (
	restStep   = time.Second
	restWithin = 20 * time.Second
)

// atRest returns the resident memory of an idle server once it no longer falls: temporary
// memory is first collected, then returned to the system.
func atRest(ctx context.Context, s *servers.Server) (int64, error) {
	last, same := int64(0), 0
	for end := time.Now().Add(restWithin); ; {
		bytes, err := s.RSS()
		if err != nil {
			return 0, err
		}
		if same++; bytes < last-last/200 || bytes > last+last/200 {
			same = 0
		}
		if last = bytes; same == 4 || time.Now().After(end) {
			return bytes, nil
		}
		if err := pause(ctx, restStep); err != nil {
			return 0, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ms(d time.Duration) float64     { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

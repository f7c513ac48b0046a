//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// never is an interval for reaping that is longer than any run.
const never = int(time.Hour / time.Millisecond)

// options are the command line.
type options struct {
	left, right string
	first       uint64
	seeds, ops  int
	keep        string
	printOnly   bool
	transcript  bool
	skipKnown   bool
	shrink      time.Duration
	failuresMax int
}

func main() {
	var o options
	flag.StringVar(&o.left, "left", "apache-"+servers.Apache39, "the server that is right: apache-VERSION or conclave")
	flag.StringVar(&o.right, "right", "conclave", "the server to compare with it")
	flag.IntVar(&o.seeds, "seeds", 50, "how many scripts")
	flag.Uint64Var(&o.first, "seed", 1, "seed of the first script; the others count up from it")
	flag.IntVar(&o.ops, "ops", 2000, "requests in each script")
	flag.StringVar(&o.keep, "keep", "", "play only these steps, such as 0,3,7-9")
	flag.BoolVar(&o.printOnly, "print", false, "print the script of the first seed and play nothing")
	flag.BoolVar(&o.skipKnown, "skip-known", false, "play random scripts only, neither known differences nor reaping")
	flag.BoolVar(&o.transcript, "transcript", false, "print what the left server answered at each step")
	flag.DurationVar(&o.shrink, "shrink", 2*time.Minute, "how long to look for a smaller script that differs")
	flag.IntVar(&o.failuresMax, "failures", 3, "stop after so many scripts that differ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare plays the scripts and reports the first difference of each.
func compare(ctx context.Context, o options) error {
	keep, err := parseKeep(o.keep)
	if err != nil {
		return err
	}
	if o.printOnly {
		var b strings.Builder
		generate(o.first, o.ops).print(&b, keep)
		fmt.Print(b.String())
		return nil
	}
	var kinds [2]servers.Kind
	for i, name := range []string{o.left, o.right} {
		if kinds[i], err = servers.Named(name); err != nil {
			return err
		}
	}
	for i, k := range kinds {
		if o.skipKnown || i > 0 && k == kinds[0] || keep != nil || k.Name() == "apache-"+servers.Apache38 {
			continue
		}
		if err := checkKnown(ctx, k); err != nil {
			return err
		}
	}
	if !o.skipKnown && keep == nil {
		if err := checkReaping(ctx, kinds); err != nil {
			return err
		}
	}
	p, err := newPair(ctx, kinds, never)
	if err != nil {
		return err
	}
	defer p.stop()
	failures, requests := 0, 0
	start := time.Now()
	if !o.skipKnown && keep == nil {
		m := matrix(withPasswords)
		same, err := p.one(m, nil, o)
		if err != nil {
			return fmt.Errorf("matrix of permissions: %w", err)
		}
		if requests += len(m.steps); !same {
			failures++
		}
		n, same, err := compareProofs(ctx, kinds, o)
		if err != nil {
			return fmt.Errorf("matrix of permissions by proof: %w", err)
		}
		if requests += n; !same {
			failures++
		}
		n, same, err = compareEnsembles(ctx, kinds, o.first)
		if err != nil {
			return err
		}
		if requests += n; !same {
			failures++
		}
	}
	for seed := o.first; seed < o.first+uint64(o.seeds) && failures < o.failuresMax; seed++ {
		if err := ctx.Err(); err != nil {
			return errors.New("diff: interrupted")
		}
		s := generate(seed, o.ops)
		same, err := p.one(s, keep, o)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		requests += o.ops
		if !same {
			failures++
		}
	}
	fmt.Printf("%s and %s: %d requests in %.0f s, %d scripts differ\n",
		p.names[0], p.names[1], requests, time.Since(start).Seconds(), failures)
	if failures > 0 {
		return fmt.Errorf("diff: %d scripts differ", failures)
	}
	return nil
}

// one plays one script on both servers and reports.
func (p *pair) one(s *script, keep []int, o options) (bool, error) {
	start := time.Now()
	left, right, err := p.play(s, keep)
	if err != nil {
		return false, err
	}
	if o.transcript {
		for i := range s.steps {
			fmt.Printf("%5d  %s\n       %s\n", i, s.steps[i].String(), strings.Join(left[i], "\n       "))
		}
		fmt.Printf("  end  %s\n", strings.Join(left[len(s.steps)], "\n       "))
	}
	at := firstDifference(left, right)
	if at < 0 {
		fmt.Printf("seed %d: %d steps equal, %.1f s\n", s.seed, len(s.steps), time.Since(start).Seconds())
		return true, nil
	}
	fmt.Printf("seed %d: differs at step %d: %s\n%s", s.seed, at, s.at(at), describe(left, right, at, p.names))
	if keep == nil && o.shrink > 0 {
		keep = p.shrink(s, at, o.shrink)
		if left, right, err = p.play(s, keep); err != nil {
			return false, err
		}
		at = firstDifference(left, right)
	}
	if at >= 0 && keep != nil {
		var b strings.Builder
		s.print(&b, keep)
		fmt.Printf("smaller, --seed %d --seeds 1 --keep %s:\n%sat step %d\n%s", s.seed, showKeep(keep), b.String(), at,
			describe(left, right, at, p.names))
	}
	return false, nil
}

// showKeep writes indices as 0,3,7-9.
func showKeep(keep []int) string {
	var parts []string
	for i := 0; i < len(keep); {
		j := i
		for j+1 < len(keep) && keep[j+1] == keep[j]+1 {
			j++
		}
		part := strconv.Itoa(keep[i])
		if j > i {
			part += "-" + strconv.Itoa(keep[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// parseKeep parses what showKeep writes; nil for an empty text.
func parseKeep(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var keep []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		i, err1 := strconv.Atoi(from)
		j, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil || i < 0 || j-i > 1<<20 {
			return nil, fmt.Errorf("diff: --keep %q: %q is no index or range of indices", text, part)
		}
		for ; i <= j; i++ {
			keep = append(keep, i)
		}
	}
	return keep, nil
}

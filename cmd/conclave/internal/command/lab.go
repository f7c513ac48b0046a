package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/labsite"
	"github.com/conclave-project/conclave/internal/lab"
	"github.com/spf13/cobra"
)

// labFlags is the flags of `conclave lab`.
type labFlags struct {
	outputFlag
	listen string
	export string
	replay string
	untilS float64
}

func newLab() *cobra.Command {
	v := &labFlags{}
	c := &cobra.Command{
		Use:   "lab",
		Short: "Watch election algorithms at work, and break them, in a browser",
		Long: `Serves a page in which a few servers hold an election: by Raft, Zab with fast leader
election, Bully, a ring, the lowest id, or leases on a store with and without fencing.
They run the production code, compiled to WebAssembly, with messages slow enough to be
seen, dropped, delayed or repeated one by one. You can kill and pause servers, cut links
and set clocks wrong. What must hold is shown in green or red.

The URL of a run describes it completely, so it is the same run everywhere. --replay
makes such a run here, without a browser, and prints how it ends. --export writes the
page as a site that any file server can serve.

A conclave that was built from source has the go command build the page's machines when
it is first started.`,
		Example: `  conclave lab
  conclave lab --listen 127.0.0.1:8090
  conclave lab --export site
  conclave lab --replay 'http://127.0.0.1:8090/#alg=raft&servers=3&seed=5&do=5000:pause:s2' --until 12`,
		Args: takes(0),
		RunE: v.run,
	}
	v.add(c)
	f := c.Flags()
	f.StringVar(&v.listen, "listen", "127.0.0.1:0", "address and port of the page; port 0 means a free one")
	f.StringVar(&v.export, "export", "", "write the site into this directory, and serve nothing")
	f.StringVar(&v.replay, "replay", "", "make the run of this URL, or of its part after the #, and print how it ends")
	f.Float64Var(&v.untilS, "until", 0, "seconds that a run of --replay lasts (default until the end of its scenario, or 5 s after its last action)")
	return c
}

func (v *labFlags) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if v.replay != "" {
		return v.again(p)
	}
	if v.untilS != 0 {
		return cli.Usage("add --replay URL", "--until needs --replay")
	}
	built := whileDoing(c, "building the laboratory") // the first time
	machines, err := labsite.Load(c.Context())
	built()
	switch {
	case errors.Is(err, labsite.ErrNoSources):
		return cli.Failed(err, "take a released conclave, or run it from a clone: go run ./cmd/conclave lab")
	case err != nil:
		return cli.Failed(err, "the go command must be in PATH, and able to build for GOOS=js GOARCH=wasm")
	}
	if v.export != "" {
		if err := labsite.Export(machines, v.export); err != nil {
			return cli.Failed(err, "name a directory that is empty or does not exist yet")
		}
		return p.Line(map[string]string{"site": v.export}, "the site is in "+v.export)
	}
	return v.serve(c, p, machines)
}

// serve serves the page until it is interrupted.
func (v *labFlags) serve(c *cobra.Command, p *cli.Printer, machines labsite.Machines) error {
	handler, err := labsite.Handler(machines)
	if err != nil {
		return err
	}
	return servePage(c, p, v.listen, "the laboratory", handler)
}

// servePage prints the URL of a page, and serves it until it is interrupted.
func servePage(c *cobra.Command, p *cli.Printer, listen, what string, handler http.Handler) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return cli.Failed(err, "write for example --listen 127.0.0.1:8090")
	}
	url := "http://" + listener.Addr().String() + "/"
	if err := p.Line(map[string]string{"url": url}, what+" is at "+url); err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		return err
	case <-c.Context().Done():
		_ = server.Close()
		<-ended
		return nil
	}
}

// again repeats the run in a URL.
func (v *labFlags) again(p *cli.Printer) error {
	_, text, found := strings.Cut(v.replay, "#")
	if !found {
		text = v.replay
	}
	spec, untilMs, err := labSpec(text)
	if err != nil {
		return cli.Usage("copy the URL of a run from the page", "%w", err)
	}
	if v.untilS < 0 || v.untilS > lab.EndUs/1e6 {
		return cli.Usage("write for example --until 12", "--until %g: a run lasts up to %d seconds", v.untilS, lab.EndUs/1_000_000)
	}
	if v.untilS > 0 {
		untilMs = int64(v.untilS * 1000)
	}
	w, err := lab.New(spec)
	if err != nil {
		return cli.Usage("copy the URL of a run from the page", "%w", err)
	}
	w.Run(untilMs * 1000)
	frame := w.Frame(0)
	return p.Answer(frame, func(out io.Writer) error { return printFrame(out, frame) })
}

// labSpec returns the run that the text after the # of a URL names, and when it is over.
func labSpec(text string) (lab.Spec, int64, error) {
	all, err := lab.Scenarios()
	if err != nil {
		return lab.Spec{}, 0, err
	}
	values, _ := url.ParseQuery(text) // text that is not a query is not a run either, as ParseSpec reports
	name, own := text, slices.ContainsFunc([]string{"alg", "servers", "seed", "do"}, values.Has)
	if values.Has("scenario") && !own {
		name = values.Get("scenario")
	}
	for _, s := range all {
		if name == s.Name {
			spec, err := lab.ParseSpec(s.Spec)
			return spec, s.UntilMs, err
		}
	}
	if name != text {
		return lab.Spec{}, 0, fmt.Errorf("there is no scenario %q", name)
	}
	spec, err := lab.ParseSpec(text)
	untilMs := int64(15_000)
	if n := len(spec.Actions); n > 0 {
		untilMs = min(max(untilMs, spec.Actions[n-1].AtUs/1000+5000), lab.EndUs/1000)
	}
	return spec, untilMs, err
}

// printFrame prints the notes of a run, the final state of its servers, and the checked
// properties.
func printFrame(out io.Writer, f lab.Frame) error {
	rows := make([][]string, 0, len(f.Notes))
	for _, e := range f.Notes {
		rows = append(rows, []string{fmt.Sprintf("%.3f", float64(e.AtUs)/1e6), e.Server, e.Text})
	}
	if err := cli.Table(out, []string{"SECONDS", "SERVER", "WHAT"}, rows); err != nil {
		return err
	}
	rows = rows[:0]
	for _, s := range f.Servers {
		var fields []string
		for _, field := range s.Fields {
			fields = append(fields, field.Name+" "+field.Value)
		}
		state := s.Role
		if s.State != "up" {
			state = s.State
		}
		rows = append(rows, []string{s.ID, state, strings.Join(fields, ", ")})
	}
	fmt.Fprintln(out)
	if err := cli.Table(out, []string{"SERVER", "IS", "WITH"}, rows); err != nil {
		return err
	}
	rows = rows[:0]
	for _, r := range f.Rules {
		held := "yes"
		if r.Broken != "" {
			held = fmt.Sprintf("no: at %.3f s %s", float64(r.AtUs)/1e6, r.Broken)
		}
		if !r.Promised {
			held += " (not promised)"
		}
		rows = append(rows, []string{r.ID, held})
	}
	fmt.Fprintln(out)
	return cli.Table(out, []string{"RULE", "HELD"}, rows)
}

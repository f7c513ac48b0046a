package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// bench is the flags of `conclave bench`.
type bench struct {
	outputFlag
	tls     tlsFlags
	options loadgen.Options
	servers string
	keep    bool
}

// benched is the result of one workload.
type benched struct {
	Workload   string  `json:"workload"`
	Operations int64   `json:"operations"`
	Refused    int64   `json:"refused"`
	PerSecond  float64 `json:"perSecond"`
	P50        float64 `json:"p50Ms"`
	P99        float64 `json:"p99Ms"`
	P999       float64 `json:"p999Ms"`
	Max        float64 `json:"maxMs"`
}

func newBench() *cobra.Command {
	v := &bench{}
	c := &cobra.Command{
		Use:   "bench [WORKLOAD...]",
		Short: "Put load on servers and measure them",
		Long: `Puts load on any ZooKeeper: each connection keeps a window of requests in
flight. The workloads are get, set, create and mix; without a name, all run one
after another. The znodes are created below --prefix and removed at the end.
make bench-compare starts Apache ZooKeeper and Conclave, and compares them.`,
		Example: `  conclave bench
  conclave bench get --connections 1 --in-flight 1 --duration 5s
  conclave bench set --server zk+tls://zk1:2281 --tls-ca ca.pem`,
		ValidArgs: workloadNames(),
		RunE:      v.run,
	}
	v.add(c)
	v.tls.add(c)
	f := c.Flags()
	f.StringVarP(&v.servers, "server", "s", "", "host:port[,host:port...] (default $CONCLAVE_STORE, else "+cli.DefaultServers+")")
	f.IntVar(&v.options.Connections, "connections", 8, "connections, each a session of its own")
	f.IntVar(&v.options.InFlight, "in-flight", 64, "requests in flight on each connection")
	f.IntVar(&v.options.DataBytes, "data-bytes", 100, "size of a znode's data")
	f.IntVar(&v.options.Znodes, "znodes", 10_000, "znodes to read and set")
	f.IntVar(&v.options.ReadPercent, "read-percent", 70, "percentage of reads in mix")
	f.DurationVar(&v.options.Duration, "duration", 10*time.Second, "how long each workload lasts")
	f.StringVar(&v.options.Prefix, "prefix", "/conclave-bench", "znode below which the others are created; removed at the end with all of them")
	f.BoolVar(&v.keep, "keep", false, "do not remove the znodes at the end")
	return c
}

func workloadNames() []string {
	names := make([]string, len(loadgen.Workloads))
	for i, w := range loadgen.Workloads {
		names[i] = string(w)
	}
	return names
}

func (v *bench) run(c *cobra.Command, names []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	store, err := cli.Servers(v.servers)
	if err != nil {
		return err
	}
	if v.options.Dial, err = v.tls.dial(store); err != nil {
		return err
	}
	v.options.Addrs = cli.ServerList(store.Servers)
	if len(names) == 0 {
		names = workloadNames()
	}
	c.Flags().Visit(func(f *pflag.Flag) { // for package loadgen, zero means its default
		if text := f.Value.String(); text == "0" || text == "0s" {
			err = cli.Usage("leave it out for "+f.DefValue+"; conclave bench set reads nothing", "--%s is %s", f.Name, text)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		o := v.options
		o.Workload = loadgen.Workload(name)
		if err := o.Validate(); err != nil {
			return cli.Usage("conclave bench --help shows what each flag takes", "%w", err)
		}
	}
	ctx, stop := untilInterrupted(c.Context())
	defer stop()
	results, err := v.measure(ctx, c.ErrOrStderr(), names)
	if err != nil {
		return &cli.Error{Err: err, Exit: cli.ExitNoServer, Hint: "check that the server is up (`conclave status`), and that anybody may create " + v.options.Prefix + " there?"}
	}
	return p.Answer(results, func(w io.Writer) error { return benchTable(w, results) })
}

// measure creates the znodes, runs the workloads and removes the znodes, even after an
// error.
func (v *bench) measure(ctx context.Context, progress io.Writer, names []string) (results []benched, err error) {
	fmt.Fprintf(progress, "making %d znodes of %d bytes on %s\n", v.options.Znodes, v.options.DataBytes, strings.Join(v.options.Addrs, ","))
	bar := newBar(progress, 0)
	end := bar.during(func(since time.Duration) string { return "making znodes: " + seconds(since) })
	err = loadgen.Fill(ctx, v.options)
	end()
	if err != nil {
		return nil, err
	}
	if !v.keep {
		defer func() {
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			defer bar.during(func(since time.Duration) string { return "removing znodes: " + seconds(since) })()
			if failed := loadgen.Clean(cleaning, v.options); err == nil {
				err = failed
			}
		}()
	}
	for _, name := range names {
		o := v.options
		o.Workload = loadgen.Workload(name)
		fmt.Fprintf(progress, "%s for %v: %d connections, %d in flight on each\n", name, o.Duration, o.Connections, o.InFlight)
		end := bar.during(func(since time.Duration) string { return seconds(since) + " of " + o.Duration.String() })
		r, err := loadgen.Run(ctx, o)
		end()
		if err != nil {
			return results, err
		}
		results = append(results, newBenched(r))
	}
	return results, nil
}

func newBenched(r *loadgen.Result) benched {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	h := &r.Latencies
	return benched{Workload: string(r.Workload), Operations: r.Operations, Refused: r.Refused, PerSecond: r.PerSecond(),
		P50: ms(h.Quantile(0.5)), P99: ms(h.Quantile(0.99)), P999: ms(h.Quantile(0.999)), Max: ms(h.Max())}
}

func benchTable(w io.Writer, results []benched) error {
	rows := make([][]string, len(results))
	for i, r := range results {
		rows[i] = []string{r.Workload, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.2f", r.P50), fmt.Sprintf("%.2f", r.P99),
			fmt.Sprintf("%.2f", r.P999), fmt.Sprintf("%.2f", r.Max), fmt.Sprint(r.Operations), fmt.Sprint(r.Refused)}
	}
	return cli.Table(w, []string{"WORKLOAD", "OPS/S", "P50 MS", "P99 MS", "P99.9 MS", "MAX MS", "OPERATIONS", "REFUSED"}, rows)
}

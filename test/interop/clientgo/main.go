// Command clientgo is a candidate that uses client-go's leaderelection, for tests that
// share a Lease with it. It campaigns until its standard input ends, and prints a line when
// it begins and when it stops leading:
//
//	elected 12345678901234    nanoseconds of CLOCK_BOOTTIME
//	ended 12345678901234
//
// A line "resign" on the input makes it release the Lease and campaign again. It ends its
// work before it releases, because client-go releases before it calls OnStoppedLeading.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "kubeconfig `file`")
	namespace  = flag.String("namespace", "default", "namespace of the Lease")
	lease      = flag.String("lease", "", "name of the Lease")
	id         = flag.String("id", "", "identity of this candidate")
	duration   = flag.Duration("lease-duration", 15*time.Second, "LeaseDuration")
	deadline   = flag.Duration("renew-deadline", 10*time.Second, "RenewDeadline")
	retry      = flag.Duration("retry-period", 2*time.Second, "RetryPeriod")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "clientgo:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  meta.ObjectMeta{Namespace: *namespace, Name: *lease},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *id},
	}
	c := &candidate{}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if lines.Text() == "resign" {
				c.resign()
			}
		}
		c.resign()
		cancel()
	}()
	for ctx.Err() == nil {
		term, resign := context.WithCancel(ctx)
		c.begin(resign)
		leaderelection.RunOrDie(term, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: *duration, RenewDeadline: *deadline, RetryPeriod: *retry, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: c.elected, OnStoppedLeading: c.ended},
		})
		resign()
	}
	return nil
}

// candidate is the state of this process.
type candidate struct {
	mu     sync.Mutex
	leads  bool
	over   bool // the term's work was ended before it began
	cancel context.CancelFunc
}

func (c *candidate) begin(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel, c.over = cancel, false
}

func (c *candidate) elected(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || ctx.Err() != nil {
		return
	}
	c.leads = true
	say("elected")
}

func (c *candidate) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.leads {
		say("ended")
	}
	c.leads = false
}

// resign ends the work, then the term. A waiting candidate keeps waiting.
func (c *candidate) resign() {
	c.mu.Lock()
	leads, cancel := c.leads, c.cancel
	c.mu.Unlock()
	if leads {
		c.ended()
		cancel()
	}
}

func say(line string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	fmt.Println(line, now.Nano())
}

// Command manager is somebody else's controller, in a module of its own: its manager
// elects on files, with a clock of its own, and it prints the token that its runnable has.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/controller"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	files, err := file.New(os.Args[1])
	check(err)
	own := &uptime{start: time.Now()}
	mgr, err := controller.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, // no API server is called
		manager.Options{LeaderElection: true, LeaderElectionID: "manager", LeaderElectionReleaseOnCancel: true,
			Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"},
		controller.Election{Backend: files, Options: election.Options{ID: "outsider", Clock: own}})
	check(err)
	check(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		lead, leads := controller.LeadershipFrom(ctx)
		fmt.Println("manager elected", lead.ID(), leads && lead.Token() > 0)
		cancel()
		return nil
	})))
	check(mgr.Start(ctx))
	fmt.Println("its clock was asked:", own.asked.Load() > 0)
}

// uptime counts from the start of the program.
type uptime struct {
	start time.Time
	asked atomic.Int64
}

// Now implements clock.Clock.
func (u *uptime) Now() clock.Instant {
	u.asked.Add(1)
	return clock.Instant(time.Since(u.start))
}

// Timer implements clock.Clock.
func (u *uptime) Timer(at clock.Instant) clock.Timer {
	a := &alarm{fired: make(chan struct{})}
	a.timer = time.AfterFunc(at.Sub(u.Now()), func() { close(a.fired) })
	return a
}

type alarm struct {
	timer *time.Timer
	fired chan struct{}
}

// C implements clock.Timer.
func (a *alarm) C() <-chan struct{} { return a.fired }

// Stop implements clock.Timer.
func (a *alarm) Stop() { a.timer.Stop() }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/conclave-project/conclave/test/servers"
)

// commonConfig makes both servers expire sessions quickly and everything else slowly, and
// enforce quotas. super:admin is the super user.
var commonConfig = []string{
	"tickTime=100",
	"maxSessionTimeout=600000",
	"enforceQuota=true",
	"DigestAuthenticationProvider.superDigest=super:xQJmxLMiHGwaqBvst5y6rkB6HQs=",
}

// javaFlags make a short-lived Java server start sooner.
var javaFlags = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"}

// A pool starts fresh servers of one kind, the next one while the last one is in use.
type pool struct {
	kind    servers.Kind
	options servers.Options
	ready   chan *servers.Server
	failed  chan error
	stopped chan struct{}
	ended   chan struct{}
}

// newPool starts servers that check containers and TTL znodes every reapMs; an hour keeps
// such deletions out of a run. Lines and properties in further options apply, too.
func newPool(ctx context.Context, kind servers.Kind, reapMs int, how ...servers.Options) (*pool, error) {
	if err := kind.Install(ctx); err != nil {
		return nil, err
	}
	p := &pool{kind: kind, ready: make(chan *servers.Server), failed: make(chan error),
		stopped: make(chan struct{}), ended: make(chan struct{})}
	p.options = servers.Options{Config: commonConfig, JavaFlags: javaFlags, HeapMiB: 128,
		Properties: map[string]string{"znode.container.checkIntervalMs": fmt.Sprint(reapMs)}}
	for _, o := range how {
		p.options.Config = slices.Concat(p.options.Config, o.Config)
		maps.Copy(p.options.Properties, o.Properties)
	}
	go p.run(ctx)
	return p, nil
}

// run is the pool's goroutine; stop waits for it.
func (p *pool) run(ctx context.Context) {
	defer close(p.ended)
	for {
		s, err := servers.Start(ctx, p.kind, p.options)
		if err != nil {
			select {
			case p.failed <- err:
			case <-p.stopped:
				return
			}
			continue
		}
		select {
		case p.ready <- s:
		case <-p.stopped:
			_ = s.Kill() // nobody is left to report an error to
			return
		}
	}
}

// fresh returns a server that nobody has connected to.
func (p *pool) fresh() (*servers.Server, error) {
	select {
	case s := <-p.ready:
		return s, nil
	case err := <-p.failed:
		return nil, err
	}
}

func (p *pool) stop() {
	close(p.stopped)
	<-p.ended
}

// play runs a script, or a part of it, on a fresh server.
func (p *pool) play(s *script, keep []int) (transcript, error) {
	server, err := p.fresh()
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	out, err := play([]string{server.Addr}, s, keep, func() error {
		server.Crash()
		return server.Restart(context.Background())
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, server.LogTail(2000))
	}
	select {
	case <-server.Ended():
		return nil, fmt.Errorf("diff: %s ended by itself: %v\n%s", p.kind.Name(), server.ExitError(), server.LogTail(4000))
	default:
		return out, nil
	}
}

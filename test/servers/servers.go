//go:build linux

package servers

import (
	"context"
	"time"
)

// A Kind is a server program that can be installed by name and started.
// Apache and Conclave make them.
type Kind interface {
	// Name says which program and version it is, such as "apache-3.9.5".
	Name() string

	// Install brings what the program needs (jars, a build). It may take
	// minutes the first time and a moment later; Start does it by itself.
	Install(ctx context.Context) error

	// command is the program's command line for a configuration file.
	command(ctx context.Context, configFile string, o Options) ([]string, error)
}

// Options say how to start one server. The zero value is a small server with a
// directory and a port of its own.
type Options struct {
	// DataDir holds snapshots and logs. Empty: a new temporary directory,
	// removed by Stop and Kill.
	DataDir string

	// Port on 127.0.0.1 for clients. 0: a free one.
	Port int

	// Config are further lines of zoo.cfg, such as "snapCount=1000". They
	// come last and so win over the defaults written by this package.
	Config []string

	// ConfigFile is a zoo.cfg that is there, in place of one written from
	// DataDir, Port and Config. It must name the same directory and port.
	ConfigFile string

	// LogFile gets standard output and error, after what is in it. Empty: a
	// file of the scratch directory, again at each start.
	LogFile string

	// Properties are process properties that cannot be written in Apache's
	// zoo.cfg, such as jute.maxbuffer or znode.container.checkIntervalMs.
	// Both kinds get them with -D on the command line.
	Properties map[string]string

	// HeapMiB is the Java heap limit; 0 is 256. Conclave ignores it.
	HeapMiB int

	// JavaFlags are further flags of the JVM. Conclave ignores them.
	JavaFlags []string

	// Disk, if set, is what the process's syncs go through.
	Disk *Disk

	// Environment are further variables, "NAME=value".
	Environment []string

	// StartWithin is how long the server may take until it answers; 0 is 30 s.
	StartWithin time.Duration
}

// Start starts a server of the kind and waits until it serves. The context
// bounds the wait only, not the life of the server.
func Start(ctx context.Context, k Kind, o Options) (*Server, error) {
	if err := k.Install(ctx); err != nil {
		return nil, err
	}
	return start(ctx, k, o)
}

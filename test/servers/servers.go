//go:build linux

package servers

import (
	"context"
	"time"
)

// A Kind is a server program that can be installed by name and started. Apache and Conclave
// return kinds.
type Kind interface {
	// Name returns the program with its version, such as "apache-3.9.5".
	Name() string

	// Install installs what the program needs (jars, a build). It may take minutes the
	// first time and only a moment later; Start calls it.
	Install(ctx context.Context) error

	// command returns the program's command line for a configuration file.
	command(ctx context.Context, configFile string, o Options) ([]string, error)
}

// Options describe how to start one server. The zero value is a small server with its own
// directory and port.
type Options struct {
	// DataDir contains snapshots and logs. If empty, a temporary directory is created, and
	// removed by Stop and Kill.
	DataDir string

	// Port is the client port on 127.0.0.1; 0 is a free one.
	Port int

	// Config are additional lines of zoo.cfg, such as "snapCount=1000". They come last and
	// so override the defaults of this package.
	Config []string

	// ConfigFile is an existing zoo.cfg, used instead of one written from DataDir, Port and
	// Config. It must name the same directory and port.
	ConfigFile string

	// LogFile is the file to which standard output and error are appended. If empty, it is
	// a file in the scratch directory, truncated at each start.
	LogFile string

	// Properties are process properties that cannot be set in Apache's zoo.cfg, such as
	// jute.maxbuffer or znode.container.checkIntervalMs. Both kinds get them with -D on the
	// command line.
	Properties map[string]string

	// HeapMiB is the Java heap limit; 0 is 256. Conclave ignores it.
	HeapMiB int

	// JavaFlags are additional JVM flags. Conclave ignores them.
	JavaFlags []string

	// Disk, if set, controls the process's syncs.
	Disk *Disk

	// Environment are additional variables, "NAME=value".
	Environment []string

	// StartWithin is how long the server may take to answer; 0 is 30 s.
	StartWithin time.Duration
}

// Start starts a server of the kind and waits until it serves. The context limits only the
// wait, not the life of the server.
func Start(ctx context.Context, k Kind, o Options) (*Server, error) {
	if err := k.Install(ctx); err != nil {
		return nil, err
	}
	return start(ctx, k, o)
}

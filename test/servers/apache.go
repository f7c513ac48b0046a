//go:build linux

package servers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

//go:embed pom.xml
var pom []byte

//go:embed zkcli.xml
var pomOfZKCli []byte

//go:embed logback.xml
var logback []byte

// Versions of Apache ZooKeeper that the suites run against.
const (
	Apache39 = "3.9.5"
	Apache38 = "3.8.6"
)

// defaultHeapMiB is enough for every suite here, and small enough to run two servers.
const defaultHeapMiB = 256

type apache struct {
	version string
	cli     bool // with the additional jars of zkCli.sh
}

// Apache returns the ZooKeeper server of a release, such as Apache39. It needs java and
// mvn. The jars are in Maven's own repository; their list is stored in the user's cache
// directory, so Maven runs only once.
func Apache(version string) Kind { return apache{version: version} }

func (a apache) Name() string { return "apache-" + a.version }

// Install resolves the jars with Maven, unless all of them exist.
func (a apache) Install(ctx context.Context) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(home, "logback.xml"), logback); err != nil {
		return fmt.Errorf("servers: install %s: %w", a.Name(), err)
	}
	jars := pom
	if a.cli {
		jars = pomOfZKCli
	}
	_, err = Jars(ctx, filepath.Base(home), jars, "-Dzookeeper.version="+a.version)
	return err
}

// ClassPath returns the class path for Java programs that use the release's client, which
// is in the server's jars. Maven downloads them if necessary.
func ClassPath(ctx context.Context, version string) (string, error) {
	a := apache{version: version}
	if err := a.Install(ctx); err != nil {
		return "", err
	}
	return a.classPath()
}

// home returns the directory of the version's list of jars and logging configuration.
func (a apache) home() (string, error) {
	name := a.Name()
	if a.cli {
		name += "-cli"
	}
	return homeOf(name)
}

// classPath reads the cached list and checks that all jars still exist.
func (a apache) classPath() (string, error) {
	home, err := a.home()
	if err != nil {
		return "", err
	}
	jars, err := jarsIn(home)
	return home + ":" + jars, err
}

func (a apache) command(_ context.Context, configFile string, o Options) ([]string, error) {
	classPath, err := a.classPath()
	if err != nil {
		return nil, err
	}
	heap := o.HeapMiB
	if heap == 0 {
		heap = defaultHeapMiB
	}
	args := []string{"java", fmt.Sprintf("-Xmx%dm", heap), "-XX:+ExitOnOutOfMemoryError"}
	args = append(args, o.JavaFlags...)
	for _, name := range sortedNames(o.Properties) {
		args = append(args, "-D"+name+"="+o.Properties[name])
	}
	// JMX is off: it would open ports and threads that nobody here uses.
	args = append(args, "-Dzookeeper.jmx.log4j.disable=true", "-cp", classPath)
	return append(args, "org.apache.zookeeper.server.quorum.QuorumPeerMain", configFile), nil
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// CacheDir returns the directory for everything that this package installs, below the
// user's cache directory. It is created if necessary.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("servers: cache directory: %w", err)
	}
	dir := filepath.Join(base, "conclave-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("servers: cache directory: %w", err)
	}
	return dir, nil
}

// JavaClient returns the command line of a Java program with a release's client on its
// class path; args begin with its source file or its class.
func JavaClient(ctx context.Context, version string, flags, args []string) ([]string, error) {
	return apache{version: version}.java(ctx, flags, args)
}

// ZKCli returns the command line of a release's zkCli.sh, without logging, and with a
// terminal that cannot move the cursor.
func ZKCli(ctx context.Context, version string, args ...string) ([]string, error) {
	flags := []string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dconclave.log.level=OFF", "-Dorg.jline.terminal.dumb=true"}
	return apache{version, true}.java(ctx, flags, append([]string{"org.apache.zookeeper.ZooKeeperMain"}, args...))
}

// java returns the command line of a Java program.
func (a apache) java(ctx context.Context, flags, args []string) ([]string, error) {
	if err := a.Install(ctx); err != nil {
		return nil, err
	}
	classPath, err := a.classPath()
	if err != nil {
		return nil, err
	}
	return append(append(append([]string{"java"}, flags...), "-cp", classPath), args...), nil
}

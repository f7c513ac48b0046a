package admin

import (
	"os"
	"os/user"
	"runtime"
	"runtime/metrics"
	"strconv"
)

// environment returns the content of envi after the version. The keys are those that ZooKeeper
// prints, in its order; values that only a Java server has are empty.
func environment() [][2]string {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	name, home := "", ""
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	used, total := memory()
	return [][2]string{
		{"host.name", host}, {"java.version", "none"}, {"java.vendor", runtime.Version()}, {"java.home", ""},
		{"java.class.path", ""}, {"java.library.path", ""}, {"java.io.tmpdir", os.TempDir()}, {"java.compiler", "none"},
		{"os.name", runtime.GOOS}, {"os.arch", runtime.GOARCH}, {"os.version", osVersion()},
		{"user.name", name}, {"user.home", home}, {"user.dir", dir},
		{"os.memory.free", megabytes(total - used)}, {"os.memory.max", megabytes(total)}, {"os.memory.total", megabytes(total)},
	}
}

func megabytes(bytes uint64) string { return strconv.FormatUint(bytes>>20, 10) + "MB" }

// memory returns the bytes of live objects, and of everything that the runtime holds.
func memory() (used, total uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

func osVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return string(b)
}

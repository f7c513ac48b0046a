//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A need is something that a suite needs from the system: a check whether it is installed,
// and the Debian packages that contain it.
type need struct {
	what     string
	check    []string // a command whose exit code is 0 if it is installed
	packages []string
}

var (
	needJava  = need{"a JDK, 11 or later", []string{"javac", "-version"}, []string{"default-jdk-headless"}}
	needMaven = need{"Maven", []string{"mvn", "-v"}, []string{"maven"}}
	needCC    = need{"a C compiler", []string{"cc", "--version"}, []string{"gcc", "libc6-dev"}}
	needKDC   = need{"MIT Kerberos", []string{"sh", "-c", "PATH=$PATH:/usr/sbin; command -v kadmin.local && command -v krb5kdc"},
		[]string{"krb5-kdc", "krb5-admin-server", "krb5-user"}}
	needChromium   = need{"Chromium", []string{"sh", "-c", "command -v chromium"}, []string{"chromium", "fonts-noto-cjk"}}
	needNPM        = need{"npm", []string{"sh", "-c", "command -v npm"}, []string{"npm"}}
	needPrometheus = need{"Prometheus with promtool", []string{"sh", "-c", "command -v prometheus && command -v promtool"}, []string{"prometheus"}}
	needTmux       = need{"tmux", []string{"tmux", "-V"}, []string{"tmux"}}
	needPostgreSQL = need{"PostgreSQL", []string{"sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres"}, []string{"postgresql"}}
	needClickHouse = need{"ClickHouse", []string{"sh", "-c", "ls /usr/sbin/clickhouse-server"}, []string{"clickhouse-server"}}
	needVenv       = need{"Python 3 with venv", []string{"python3", "-c", "import venv, ensurepip"},
		[]string{"python3", "python3-venv"}}
	needZooKeeperC = need{"the ZooKeeper C client",
		[]string{"sh", "-c", "echo '#include <zookeeper/zookeeper.h>' | cc -E - -o /dev/null"},
		[]string{"libzookeeper-mt-dev"}}
)

// install installs what is missing with apt, as root; otherwise it prints what to do.
func install(ctx context.Context, needs []need) error {
	var packages []string
	for _, n := range needs {
		if exec.CommandContext(ctx, n.check[0], n.check[1:]...).Run() == nil {
			continue
		}
		packages = append(packages, n.packages...)
	}
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing: install the equivalent of the Debian packages %s", strings.Join(packages, " "))
	}
	script := "apt-get update -qq && apt-get install -y -qq --no-install-recommends " + strings.Join(packages, " ")
	apt := exec.CommandContext(ctx, "sh", "-c", script)
	apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := apt.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get install %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

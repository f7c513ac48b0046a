package main

import (
	"fmt"
	"strings"
)

// formula returns Homebrew's formula for the archives with these sums.
func formula(bare string, sums map[string]string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, `# Made by tools/release for v%[1]s.
class Conclave < Formula
  desc "Coordination server for ZooKeeper's clients, and leader election"
  homepage "https://github.com/conclave-project/conclave"
  version "%[1]s"
  license "Apache-2.0"

`, bare)
	for _, system := range []struct{ ours, theirs string }{{"darwin", "macos"}, {"linux", "linux"}} {
		fmt.Fprintf(&out, "  on_%s do\n", system.theirs)
		for _, machine := range []struct{ ours, theirs string }{{"arm64", "arm"}, {"amd64", "intel"}} {
			name := archiveName(bare, target{system.ours, machine.ours})
			sum := sums[name]
			if sum == "" {
				return "", fmt.Errorf("the formula needs %s", name)
			}
			fmt.Fprintf(&out, "    on_%s do\n      url \"https://github.com/conclave-project/conclave/releases/download/v%s/%s\"\n      sha256 \"%s\"\n    end\n",
				machine.theirs, bare, name, sum)
		}
		out.WriteString("  end\n\n")
	}
	out.WriteString(`  def install
    bin.install "conclave", "conclave-stores"
    system bin/"conclave", "man", man1
    generate_completions_from_executable(bin/"conclave", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/conclave version")
    system bin/"conclave", "lock", "demo", "--store", "file://#{testpath}/elections", "--", "true"
  end
end
`)
	return out.String(), nil
}

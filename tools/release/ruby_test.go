//go:build packages

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// brew is the part of Homebrew that the formula uses: like Homebrew, it runs install in the
// directory of the archive, and then the test. Homebrew's own checks of a formula (brew
// audit) are not included.
const brew = `require "pathname"
class Pathname
  def install(*files)
    mkpath
    files.each { |f| system("cp", f, to_s) or raise "no #{f}" }
  end
end
class Formula
  def self.desc(text) = (raise "desc" if text.length > 80 || text.end_with?(".") || text =~ /\A(A|An|The) /)
  def self.homepage(url) = nil
  def self.license(name) = nil
  def self.version(v) = (@version = v)
  def self.url(url) = (raise "#{url} has not the version" unless url.include?("/v#{@version}/conclave-#{@version}-"))
  def self.sha256(sum) = (raise "sum" unless sum =~ /\A[0-9a-f]{64}\z/)
  def self.on_macos = yield
  def self.on_linux = yield
  def self.on_arm = yield
  def self.on_intel = yield
  def self.test(&block) = define_method(:run_test, &block)
  def self.told = @version
  def prefix = Pathname.new(ENV.fetch("PREFIX"))
  def bin = prefix/"bin"
  def man1 = prefix/"share/man/man1"
  def testpath = prefix/"test"
  def version = ENV.fetch("VERSION")
  def system(*args) = (Kernel.system(*args.map(&:to_s), exception: true))
  def shell_output(command) = %x(#{command}).tap { raise command unless $?.success? }
  def assert_match(want, got) = (raise "no #{want} in #{got}" unless got.include?(want))
  def generate_completions_from_executable(*command)
    %w[bash zsh fish].each { |shell| raise shell if shell_output((command + [shell]).join(" ")).empty? }
  end
end
load ARGV[0]
formula = Conclave.new
formula.testpath.mkpath
formula.install
raise "no man page" if Dir[formula.man1/"*.1"].empty?
formula.run_test
`

// TestFormulaInstallsAndTests needs Debian's package ruby, and an archive of PACKAGES.
func TestFormulaInstallsAndTests(t *testing.T) {
	sums := map[string]string{}
	for _, one := range targets {
		sums[archiveName("0.2.0", one)] = "0000000000000000000000000000000000000000000000000000000000000000"
	}
	text, err := formula("0.2.0", sums)
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(os.Getenv("PACKAGES"), "conclave-*-linux-amd64.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("PACKAGES has %q: %v", archives, err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"conclave.rb": text, "brew.rb": brew} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := output(dir, "ruby", "-c", "conclave.rb"); err != nil || out != "Syntax OK" {
		t.Error(out, err)
	}
	if _, err := output(dir, "tar", "-xzf", archives[0]); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, strings.TrimSuffix(filepath.Base(archives[0]), ".tar.gz"))
	version, err := output(folder, "./conclave", "version")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("ruby", "../brew.rb", "../conclave.rb")
	c.Dir, c.Env = folder, append(os.Environ(), "PREFIX="+filepath.Join(dir, "prefix"), "VERSION="+strings.Fields(version)[1])
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

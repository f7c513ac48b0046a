# make prints what can be made. Everything here is one command that can be
# typed by hand as well.

STATICCHECK_VERSION = v0.8.2
FUZZTIME ?= 1m
SEEDS ?= 50
KILLS ?= 100
# Packages with goroutines or with state that goroutines share.
RACE_PACKAGES = ./clock ./client/... ./election/... ./internal/server ./internal/ports ./internal/names ./internal/peernet ./internal/inprocess ./internal/tree ./internal/watch ./internal/datadir ./internal/loadgen ./conclavetest ./cmd/conclave/...

.PHONY: help
help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

COMMANDS = ./cmd/conclave ./cmd/conclave/conclave-stores

.PHONY: build
build: ## bin/conclave, and bin/conclave-stores for stores that need an SDK
	go build -o bin/ $(COMMANDS)

.PHONY: install
install: ## both where go install puts programs
	go install $(COMMANDS)

.PHONY: test
test: ## all tests of all modules, some eight minutes on two cores
	go test work

.PHONY: test-busy
test-busy: ## the same, uncached, beside four busy loops: no test may rest on the speed of the machine
	@loops=; trap 'kill $$loops' EXIT; \
	for i in 1 2 3 4; do sh -c 'while :; do :; done' & loops="$$loops $$!"; done; \
	go test -count=1 work

.PHONY: race
race: ## the packages with goroutines under the race detector
	GORACE="atexit_sleep_ms=50 $$GORACE" go test -race -pgo=off -timeout 20m $(RACE_PACKAGES)

.PHONY: lint
lint: bin/staticcheck size ## gofmt, go vet and staticcheck, and the size of conclave
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet -tags interop,versions,robust,chaos,conformance,release,packages,applications work
	bin/staticcheck -tags interop,versions,robust,chaos,conformance,release,packages,applications $$(go list work)

# What conclave may weigh in bytes, stripped: it links no store's SDK.
SIZE_MAX = 23300000

.PHONY: size
size: ## refuse a conclave that has grown beyond SIZE_MAX
	@go build -trimpath -pgo=auto -ldflags '-s -w' -o bin/stripped ./cmd/conclave
	@bytes=$$(wc -c <bin/stripped); rm bin/stripped; echo "conclave: $$bytes bytes stripped"; \
	[ $$bytes -le $(SIZE_MAX) ] || { echo "more than $(SIZE_MAX): see docs/decisions/0017, 0031, 0034 and 0042" >&2; exit 1; }

# Compares what two versions export.
APIDIFF_VERSION = v0.0.0-20261014143641-f0251eb4aa3e

bin/apidiff:
	GOBIN=$(CURDIR)/bin go install golang.org/x/exp/cmd/apidiff@$(APIDIFF_VERSION)

.PHONY: release
release: bin/apidiff ## VERSION=v0.2.0: all modules in step: the API compared, CHANGELOG, commit, tags; pushes nothing
	go run ./tools/release prepare $(VERSION)

.PHONY: api
api: bin/apidiff ## how the exported API differs from the last version
	go run ./tools/release api

.PHONY: tidy
tidy: ## go mod tidy in every module
	go run ./tools/release tidy

.PHONY: installable
installable: bin/apidiff ## a version made in a clone, installed and used from a module proxy of files, by somebody outside the tree
	go test -tags release -count=1 -v -timeout 30m ./tools/release

DIST = bin/dist
SITE = bin/site

.PHONY: dist
dist: ## VERSION=v0.2.0, half an hour: the programs for every system, built twice and compared, with sums and bills of materials, in DIST=bin/dist
	go run ./tools/release dist $(VERSION) $(DIST) $(TARGETS)

PACKAGES = bin/packages

.PHONY: packages
packages: ## VERSION=v0.2.0: of the programs in DIST, built first if they are not there: .deb, .rpm, an image, the Helm chart, a formula, archives, in PACKAGES=bin/packages
	go run ./tools/release packages $(VERSION) $(DIST) $(PACKAGES)

PACKAGED = $(CURDIR)/bin/packaged

.PHONY: packages-test
packages-test: ## packages made twice and compared; the Debian package under a systemd, the image, the chart on a real API server, a rollout under load; needs root, and skopeo umoci runc lintian rpm ruby
	rm -rf $(PACKAGED) && mkdir -p $(PACKAGED)/dist/conclave-0.0.1-linux-amd64
	GOARCH=amd64 CGO_ENABLED=0 go build -ldflags '-s -w' -o $(PACKAGED)/dist/conclave-0.0.1-linux-amd64/ $(COMMANDS)
	touch $(PACKAGED)/dist/SHA256SUMS
	go run ./tools/release packages v0.0.1 $(PACKAGED)/dist $(PACKAGED)/one
	go run ./tools/release packages v0.0.1 $(PACKAGED)/dist $(PACKAGED)/two
	diff -r $(PACKAGED)/one $(PACKAGED)/two
	PACKAGES=$(PACKAGED)/one go test -tags packages -count=1 -v -timeout 60m ./deploy ./tools/release

.PHONY: systems
systems: ## the types of what is built for macOS and Windows too, and of everything where an int has 32 bits
	go run ./tools/systems darwin/arm64,windows/amd64 $(PORTABLE)
	go run ./tools/systems linux/386 work

# What reads bytes of strangers and of disks, and what counts them.
COUNTING = ./internal/jute ./internal/adler ./internal/wire ./internal/txn ./internal/peerwire ./internal/compact ./internal/session ./internal/snap ./internal/txnlog ./internal/datadir ./internal/replica ./internal/replicadisk ./internal/vfs/... ./internal/loadgen ./election/backend/internal/overlap

.PHONY: test-narrow
test-narrow: ## the tests of what reads and counts bytes, where an int has 32 bits: Linux runs programs for 386; half a minute
	GOARCH=386 CGO_ENABLED=0 go test $(COUNTING)

.PHONY: machines
machines: ## all tests on linux/386, and those of what reads and counts bytes on arm64 and s390x in QEMU, an hour; installs qemu-user-static if it is missing
	GOARCH=386 CGO_ENABLED=0 go test work
	command -v qemu-s390x-static >/dev/null || apt-get install -y -qq --no-install-recommends qemu-user-static
	GOARCH=arm64 CGO_ENABLED=0 go test -timeout 60m -exec qemu-aarch64-static $(COUNTING)
	GOARCH=s390x CGO_ENABLED=0 go test -timeout 60m -exec qemu-s390x-static $(COUNTING)

PORTABLE = ./clock ./client/... ./conclavetest ./election/... ./internal/vfs/... ./cmd/conclave/...

bin/staticcheck:
	GOBIN=$(CURDIR)/bin go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)

.PHONY: fuzz
fuzz: ## every fuzz target, the ports among them, for FUZZTIME=1m each
	@for f in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$f); do \
			echo "$$(dirname $$f) $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$f) || exit 1; \
		done; \
	done

.PHONY: fuzz-ports
fuzz-ports: ## strangers at the ports for clients, servers and operators, in clear text and over TLS, for FUZZTIME=1m each
	@for port in Client SecureClient Election Quorum Admin; do \
		go test -run '^$$' -fuzz "^Fuzz$${port}Port\$$" -fuzztime $(FUZZTIME) ./cmd/conclave/internal/adminport || exit 1; \
	done

.PHONY: interop
interop: ## unmodified clients (Java, Curator, kazoo, go-zookeeper, C; three of them over TLS too), a terminal (tmux), scripts of zkCli.sh, directories of Apache ZooKeeper, known differences, permissions and random scripts beside it, and administrators' commands on its servers; installs what is missing
	go run ./test/interop/run
	go run ./test/interop/run -tls
	go run ./test/diff -seeds 4
	go test -tags interop -count=1 -run OnApacheZooKeeper ./cmd/conclave/internal/command

.PHONY: monitoring
monitoring: ## three servers and a real Prometheus: alerts, dashboards, promtool; installs it if it is missing
	go run ./test/interop/run -suites prometheus

.PHONY: browser
browser: ## the pages of the laboratory and of the dashboard in Chromium: with the mouse, with keys alone, on every screen, in both languages; SHOTS=DIR keeps what it sees
	go run ./test/interop/run -suites browser

.PHONY: site
site: ## the documentation as a site, in SITE=bin/site, with a search and the laboratory; needs no server
	rm -rf $(SITE)
	go run ./cmd/conclave docs --export $(SITE)

.PHONY: interop-upstream
interop-upstream: ## the tests that ZooKeeper and Curator publish beside their libraries, on Conclave; an hour; KIND=apache-3.9.5 for comparison
	go run ./test/interop/run -suites zookeeper,curator -kind $(or $(KIND),conclave)

.PHONY: interop-ensemble
interop-ensemble: ## ensembles of Conclave and Apache ZooKeeper in every mixture, under load; rolling replacement; reconfig
	go run ./test/interop/run -ensemble conclave,conclave,conclave
	go run ./test/interop/run -ensemble conclave,apache-3.9.5,apache-3.8.6
	go test -tags interop -count=1 -v -timeout 30m ./test/ensemble

.PHONY: applications
applications: ## Kafka, HBase, Solr and others on an ensemble of Conclave whose leader is killed; the first run downloads them
	go run ./test/interop/run -install -suites applications
	go test -tags applications -count=1 -v -timeout 90m ./test/applications

.PHONY: interop-versions
interop-versions: ## EARLIER=BINARY: each server of an ensemble goes from that version to this one and back, under load
	CONCLAVE_EARLIER=$(abspath $(EARLIER)) go test -tags interop,versions -count=1 -v -run TestUpgradeAndDowngrade ./test/ensemble

.PHONY: conformance
conformance: ## every election backend on its real store, built and kept in a cache; writes docs/backends.md; ARGS="-only etcd" or "-without consul"
	go run ./test/conformance $(ARGS)
	go test -tags conformance -count=1 -run SharedWith ./election/backend/zookeeper
	go test -tags conformance -count=1 ./cmd/conclave/conclave-stores/places
	go test -tags conformance -count=1 -run 'TwoManagers|BothKinds' ./election/controller

.PHONY: lock-experiment
lock-experiment: ## five processes, pauses longer than the lease: which updates are lost, with each backend and with others' locks
	go run ./test/conformance lock-experiment $(ARGS)

.PHONY: differential
differential: ## SEEDS=50 random scripts on Apache ZooKeeper and on Conclave, compared
	go run ./test/diff -seeds $(SEEDS)

.PHONY: backup-drill
backup-drill: ## 100 moments of an encrypted backup, taken by an ensemble under load while its leaders change, restored and compared
	go test -tags robust -count=1 -v -timeout 10m -run TestEveryMomentOfABackupIsWhatTheServerHad ./cmd/conclave/internal/autobackup

.PHONY: robust
robust: ## KILLS=100 times kill -9 under load, full disks, equal trees, 10,000 sessions, a million watches, garbage on the port
	ROBUST_KILLS=$(KILLS) go test -tags robust -count=1 -v -timeout 60m ./test/robust

.PHONY: chaos
chaos: ## CHAOS_MINUTES=30 of kills, pauses, cut links, full, slow, broken and lost disks, reconfigs, on an ensemble of real processes; 1 is a smoke test
	go test -tags chaos -count=1 -v -timeout $$(($${CHAOS_MINUTES:-30} + 10))m ./test/chaos

.PHONY: storms
storms: ## STORMS=500 ensembles of whole servers on virtual time, and as many with elections and with recipes: kills, cuts, pauses, reconfigs; SEED=N begins at another seed
	go test -count=1 -timeout 60m -run ThroughStorms ./internal/server ./election/backend/zookeeper ./election/queue ./election/record ./election/holders ./election/backend/peers ./election/backend/azureblob ./election/backend/consul ./election/backend/etcd ./election/backend/kubernetes ./client/recipes -faults 120 -storms $(or $(STORMS),500) -storm $(or $(SEED),1)

.PHONY: crash
crash: ## simulated crash at every operation on the disk
	go test -count=1 -run 'Crash|Failing|Failure' ./internal/txnlog ./internal/datadir ./internal/server ./internal/vfs

.PHONY: sim
sim: ## 2,000 seeds of the simulator, in a minute
	go run ./cmd/conclave sim --seeds 2000

.PHONY: sim-long
sim-long: ## 20,000 seeds, and every known bug put back
	go run ./cmd/conclave sim --seeds 20000
	go run ./test/mutants -only simulator

.PHONY: model
model: ## every order of events in the full scopes of the model checker, and every known bug put back
	go run ./cmd/conclave model --scope full
	go run ./cmd/conclave model --mutants

.PHONY: mutants
mutants: ## every known bug put back, by every proof; ends with "N of N mutants found"; ARGS="-only model" or "-write" for docs/proofs.md
	go run ./test/mutants $(ARGS)

.PHONY: bench
bench: ## the benchmarks within the packages
	go test -run '^$$' -bench . -benchmem ./internal/... ./client ./election/...

.PHONY: bench-check
bench-check: ## allocations, bytes and system calls, counted beside those of the last commit or of BASE=COMMIT; more than 5 % above is an error; a minute
	go run ./test/bench check $(if $(BASE),-base $(BASE))

.PHONY: bench-compare
bench-compare: ## Apache ZooKeeper and Conclave under the same load, one server and ensembles of three, tables with ratios
	go run ./test/bench compare
	go run ./test/bench compare -size 3

.PHONY: bench-etcd
bench-etcd: ## etcd and Conclave with the same work, one server and three, tables with ratios
	go run ./test/bench etcd
	go run ./test/bench etcd -size 3

.PHONY: bench-elections
bench-elections: ## what candidates cost on the stores that run here, by our SDK and by the libraries of others; half an hour
	go run ./test/bench elections

.PHONY: bench-floor
bench-floor: ## what Conclave costs in multiples of the least server that could be, one server and ensembles of three
	go run ./test/bench floor -repetitions 5
	go run ./test/bench floor -repetitions 5 -size 3

.PHONY: bench-profile
bench-profile: ## where the CPU time of a server goes, by the steps of a request
	go run ./test/bench profile

.PHONY: pgo
pgo: ## cmd/conclave/default.pgo, the profile that conclave is compiled with, from the loads of bench-profile; three minutes, on a machine that does nothing else
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; set -x; \
	go build -trimpath -o $$dir/bench ./test/bench && \
	$$dir/bench profile -keep $$dir && \
	$$dir/bench profile -keep $$dir -size 3 -merge cmd/conclave/default.pgo

.PHONY: bench-scale
bench-scale: ## sessions, watches, trees, ensembles, cores, tenants: curves over size with their aims; of PARTS=sessions,... or all; FULL=1 goes as far as the aims
	go run ./test/bench scale $(if $(PARTS),-parts $(PARTS)) $(if $(FULL),-full)

.PHONY: bench-settings
bench-settings: ## what the audit log and the port of metrics cost, in CPU time for an operation
	go run ./test/bench settings

.PHONY: failover
failover: ## how long writes stop when the leader of three servers is killed or stopped, Apache ZooKeeper and Conclave
	go run ./test/bench failover

.PHONY: figures
figures: ## the figures of the source beside those we aim at
	go run ./test/figures

.PHONY: man
man: ## bin/man: the man pages
	go run ./cmd/conclave man bin/man

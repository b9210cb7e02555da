# Every target does one thing and can be run by hand; `make` alone lists them.
#
#   PREFIX   where `make install` puts things      (default /usr/local)
#   DESTDIR  a folder put before PREFIX, for packagers
#   UNITDIR  where systemd looks for user units    (default $(PREFIX)/share/systemd/user)

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
UNITDIR ?= $(PREFIX)/share/systemd/user
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)
EPOCH    = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct))

# The grpcnotrace tag takes 3 MB off the resident memory of each shim.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace \
        -ldflags '-s -w -X main.release=$(VERSION)'

FUZZTIME ?= 10s
DIST     ?= dist
NPM       = internal/test/e2e/npm
AGENTS    = internal/test/e2e/agents

# The extensions that ship. Those with a go.mod are modules of their own.
EXTENSIONS = pathguard quota scrubber

.PHONY: help demo build extensions test test-all loosen lint fmt vet staticcheck duplicates darwin generate check-generated fuzz random pictures check-pictures soak bench corpus \
        packages packages-check rig install install-units uninstall clean cc npm agents fleet-demo fleet-chaos fleet-bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## build the programs and run the tour: one call forwarded, one denied, one held
	bin/tgctl demo

fleet-demo: build ## a fleet on one machine: three users join, get a policy, one answers the question of another
	$(GO) run ./internal/test/fleet/demo bin

build: extensions ## build thoughtgated, tgctl, tg-shim, tg-fleet and the extensions into bin/
	$(BUILD) -o bin/ ./cmd/thoughtgated ./cmd/tgctl ./cmd/tg-shim ./cmd/tg-fleet

# What an extension consists of, as tools/packages has it too: its manifest, its
# page, what is no test of its Python, and the program if it is one in Go.
extensions: ## build only the extensions, each into a folder that can be installed
	@for name in $(EXTENSIONS); do \
		from=extensions/$$name to="$(CURDIR)/bin/extensions/$$name"; \
		rm -rf "$$to" && install -d "$$to" && install -m 0644 $$from/extension.yaml $$from/README.md "$$to" || exit 1; \
		for file in $$from/*.py; do \
			case $$file in */test_*|*/\*.py) ;; *) install -m 0644 $$file "$$to" || exit 1 ;; esac; \
		done; \
		if [ -f $$from/main.go ]; then (cd $$from && $(BUILD) -o "$$to/$$name" .) || exit 1; fi; \
	done

# A package may take TESTLIMIT, and a test that hangs costs no more: the longest takes two minutes
# on two quiet cores, and has taken 25 minutes where the machine did something else beside it.
# GOTEST lists at the end what was skipped.
TESTLIMIT ?= 30m
GOTEST     = CGO_ENABLED=1 GORACE='$(GORACE) atexit_sleep_ms=0' $(GO) -C tools run ./gotest

# lint runs go vet, and nobody debugs these binaries: a minute less for the linker. With -trimpath
# their packages are those of `make build` and `make packages`, and of any other clone: they are
# compiled once for all. Tests that run beside each other wait more than they compute.
TESTFLAGS = -timeout $(TESTLIMIT) -vet=off -trimpath -ldflags='-s -w' -parallel 4

# The race detector looks into all but SQLite and the hash of passphrases, where it spent most of
# its time; see RaceFlags in internal/test/programs, which must be the same.
NORACE = modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory golang.org/x/crypto/argon2 golang.org/x/crypto/blake2b
RACE   = -race $(foreach package,$(NORACE),-gcflags='$(package)=-race=0 -d=checkptr=0')

# Tests run with the race detector where goroutines meet, and without it where they don't, or
# where a comment //gotest:plain says why; see tools/gotest. `make test-all` runs those with it, too.
PLAIN = CGO_ENABLED=0 -tags grpcnotrace

test: cc npm ## install what the tests need and run all of them, with the race detector where goroutines meet
	@$(GOTEST) .. $(RACE) $(TESTFLAGS) -p 2 race:./... \
		-- ../tools/packages $(PLAIN) $(TESTFLAGS) ./... \
		-- .. $(PLAIN) $(TESTFLAGS) -p 2 plain:./... \
		-- ../extensions/scrubber -race $(TESTFLAGS) race:./... \
		-- ../extensions/scrubber $(PLAIN) $(TESTFLAGS) plain:./... \
		-- ../internal/tuf/oracle $(PLAIN) $(TESTFLAGS) ./... \
		-- . $(PLAIN) $(TESTFLAGS) ./gotest ./loosen

# Each of these is something of which `make test` runs a small piece. KILLS is how often daemons are
# killed under load, a quarter as often under a real systemd.
KILLS ?= 2000

test-all: cc npm ## run the long campaigns, of which test runs a small piece each; takes two hours
	$(GOTEST) .. $(RACE) $(TESTFLAGS) plain:./... \
		-- ../extensions/scrubber -race $(TESTFLAGS) plain:./...
	$(GO) test -count=1 -run '^TestNothingIsLeft$$' -v -timeout 60m ./daemon/handover -args -sessions=1000
	$(GO) test -count=1 -run '^TestKills' -v -timeout 0 ./internal/test/kills -args -kills=$(KILLS)
	THOUGHTGATE_KILLS=500 $(GO) test -count=1 -run '^TestCallsSurviveKills$$' -v -timeout 60m ./daemon/relay
	$(GO) test -count=1 -run '^TestKill' -v -timeout 60m ./cmd/tgctl/internal/wrap -args -all-kills
	$(GO) test -count=1 -run '^TestKill' -v -timeout 60m ./internal/agentconf -args -all-kills
	$(GO) test -count=1 -run '^TestAgreesWithGit$$|^TestLargeTree$$' -v -timeout 0 ./internal/worktree -args -cases=1000 -files=100000
	$(GO) test -count=1 -run '^TestScan$$' -v -timeout 0 ./internal/test/e2e -args -scans=100
	$(GO) -C internal/tuf/oracle test -count=1 -v -timeout 60m . -args -cases=5000
	$(GO) test -count=1 -run '^TestRandomLinesAgainstBash$$' -v -timeout 60m ./internal/shell -args -lines=100000
	$(GO) test -count=1 -run '^TestCopierFails$$|^TestRemote$$|^TestWeb$$|^TestSessionsShareConnections$$' -v -timeout 120m ./internal/test/hostile -args -copy=1 -behind=1 -stream=10240 -sessions=200
	$(GO) test -count=1 -run '^TestConformance$$' -v -timeout 60m ./internal/test/e2e -args -logins
	$(GO) test -count=1 -run '^TestRealAgents|^TestHook' -v -timeout 60m ./internal/test/e2e -args -ways
	$(MAKE) loosen

# LOOSEN=REGEXP tries only the changes whose file and description match.
loosen: ## make the code that decides looser in one place at a time: a test must notice each change
	$(GO) -C tools run ./loosen $(if $(LOOSEN),-run '$(LOOSEN)') ..

lint: fmt vet staticcheck duplicates check-generated check-pictures darwin ## everything below that only looks

fmt: ## list files that gofmt would change
	@out=$$(gofmt -l client cmd contrib daemon extensions internal proto tools); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

# With these, they read what is compiled for the tests and programs.
vet staticcheck: export CGO_ENABLED = 0
vet staticcheck: export GOFLAGS += -trimpath -tags=grpcnotrace

vet: ## go vet, the tools included
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	$(GO) -C tools/packages vet ./...
	$(GO) -C extensions/scrubber vet ./...
	$(GO) -C internal/tuf/oracle vet ./...

staticcheck: ## staticcheck, at the version that tools/go.mod names
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) -C tools tool staticcheck ./...
	cd tools/packages && $(GO) run -modfile=../go.mod honnef.co/go/tools/cmd/staticcheck ./...
	cd extensions/scrubber && $(GO) run -modfile=../../tools/go.mod honnef.co/go/tools/cmd/staticcheck ./...
	cd internal/tuf/oracle && $(GO) run -modfile=../../../tools/go.mod honnef.co/go/tools/cmd/staticcheck ./...

duplicates: ## list what two places of the Go code have in common, if it is 100 tokens or more
	@out=$$(find client cmd contrib daemon extensions internal tools -name '*.go' -print0 | xargs -0 grep -L '^// Code generated' | \
		$(GO) tool -modfile=tools/go.mod dupl -files -plumbing -t 100) || exit 1; \
	if [ -n "$$out" ]; then echo "$$out"; exit 1; fi

darwin: ## build and vet for macOS on both architectures
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -trimpath -buildvcs=false ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet -trimpath ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=amd64 $(GO) build -trimpath -buildvcs=false ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=amd64 $(GO) vet -trimpath ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) -C extensions/scrubber vet -trimpath ./...

generate: ## write the Go code of proto/ and the secret rules of daemon/facts again
	$(GO) -C tools run ./protogen ../proto
	$(GO) -C tools run ./secretrules ../daemon/facts

check-generated: ## fail when generated code is not what generate would write
	$(GO) -C tools run ./protogen -check ../proto
	$(GO) -C tools run ./secretrules -check ../daemon/facts

hostile: ## put hostile messages to the real programs: our cases, or CASES=file
	$(GO) -C internal/test/hostile test -count=1 -timeout 20m $(if $(CASES),-args -cases='$(abspath $(CASES))')

# FLEET are more flags of the test, as FLEET='-seed 4711' to play an earlier run again. It takes ten minutes.
fleet-chaos: ## kill, cut and stall the engine of a fleet while 100 daemons send 1,000,000 records to it; kill the leader of three
	$(GO) test -count=1 -timeout 0 -v -run '^(TestChaos|TestThreeNodes)$$' ./internal/test/fleet -args \
		-daemons=100 -records=1000000 -kills=20 -cuts=50 -crashes=20 -over=6m -leaders=10 $(FLEET)

# Needs as many descriptors, for the devices and for the engine each: `ulimit -n 20000`.
CONNECTIONS ?= 10000
fleet-bench: ## measure the engine of a fleet with CONNECTIONS (10000) real devices on this machine
	$(GO) test -count=1 -timeout 0 -v -run '^TestBench$$' ./internal/test/fleet -args -connections=$(CONNECTIONS)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' client cmd daemon extensions internal | \
	while IFS=: read -r file name; do \
		echo "$${file%/*} $${name#func }"; \
		$(GO) -C "$${file%/*}" test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x . || exit 1; \
	done

# What tgctl shows of one fixed day, on terminals of three sizes and in a browser. check-pictures compares
# texts, and of each PNG the digest of what it was drawn from: it needs tmux, and no browser.
PICTURES = CGO_ENABLED=0 $(GO) test -trimpath -tags grpcnotrace -vet=off -run '^TestPictures' ./cmd/tgctl ./cmd/tgctl/internal/dashboard \
	./cmd/tgctl/internal/doctor ./cmd/tgctl/internal/inbox ./cmd/tgctl/internal/scan

pictures: ## make docs/pictures again where tgctl shows something else now; needs tmux and Chromium
	$(PICTURES) -count=1 -update

check-pictures: ## fail when docs/pictures is not what tgctl shows
	$(PICTURES)

random: ## hold the gates against a plain reference, and shared servers against a model, on 100,000 random cases; play long storms
	THOUGHTGATE_REFERENCE_CASES=100000 $(GO) test -run TestGatesAgreeWithReference -v -timeout 60m ./daemon/policy
	$(GO) test -run TestNobodyGetsTheMessageOfAnother -v -timeout 60m ./daemon/runtime/backend -rapid.checks=100000
	$(GO) test -count=1 -run '^TestReloadStorm$$' -v -timeout 60m ./daemon -args -reloads=1000
	$(GO) test -count=1 -run '^TestStorm$$' -v -timeout 60m ./internal/test/storm -args -cycles=1000

# CORPUS is a folder with corpora that somebody has fetched: dcg, redcode, nl2bash, egress.
# HALF=odd judges the half that nothing is tuned by. LISTS=FILE is where the cases go.
corpus: ## judge other people's corpora of commands in CORPUS=dir under the built-in default
	@test -n '$(CORPUS)' || { echo "make corpus: say CORPUS=DIR; docs/development.md says what it has to hold"; exit 1; }
	CGO_ENABLED=0 $(GO) test -count=1 -timeout 60m -v ./internal/test/corpus -args -corpus='$(abspath $(CORPUS))' \
		$(if $(HALF),-half=$(HALF)) $(if $(LISTS),-lists='$(abspath $(LISTS))')

# SOAK is how long it runs, and SOAK_MESSAGES=N has it send so many instead;
# SOAK_RATE is how many it sends in a second. SOAK_OUT=DIR keeps the table, every
# sample as CSV and profiles of the daemon's heap. SOAK_SEED=N makes the choices of
# an earlier run again, and SOAK_PLANT=descriptors or memory leaks in the load itself,
# to see that it is found.
SOAK      ?= 1h
SOAK_RATE ?= 200
soak: ## load the real programs for SOAK (1h), restarts included, and fail if memory, descriptors or latency drift
	$(GO) -C internal/test/soak test -count=1 -timeout 0 -v -run '^TestSoak$$' . -args -rate=$(SOAK_RATE) \
		$(if $(SOAK_MESSAGES),-messages=$(SOAK_MESSAGES),-for=$(SOAK)) $(if $(SOAK_OUT),-out='$(abspath $(SOAK_OUT))') \
		$(if $(SOAK_SEED),-seed=$(SOAK_SEED)) $(if $(SOAK_PLANT),-plant=$(SOAK_PLANT))

# It takes some minutes and is no test: nothing fails when a figure is missed. What it
# prints goes into BENCHMARKS.md as well, and with spreads into bench.json. BENCH are
# more flags of internal/test/bench, as BENCH='-base DIR' for the programs of another commit
# or BENCH="-peer 'NAME=COMMAND'" for another gate.
bench: build ## measure what the gate costs beside the server alone and a byte copier
	$(GO) run ./internal/test/bench -bin bin -command 'make bench' -json bench.json -markdown BENCHMARKS.md $(BENCH)

# PLATFORMS=linux/amd64,linux/arm64 makes fewer, DIST=DIR makes them elsewhere.
packages: ## make packages, archives, formula, bills of materials and their sums in dist/
	$(GO) -C tools/packages run . -version '$(VERSION)' -epoch '$(EPOCH)' \
		$(if $(PLATFORMS),-platforms '$(PLATFORMS)') -out '$(abspath $(DIST))'

packages-check: packages ## make them again elsewhere, with nothing compiled yet, and compare all sums
	$(GO) -C tools/packages test -count=1 -v -timeout 60m -run TestMadeElsewhere . -against ../../dist

# RIG is a program that boots systemd on a copy of this machine for an ordinary
# user with a service manager, and takes these arguments:
#   RIG run [--ro-bind DIR:AT] [--root-cmd TEXT] [--env NAME=VALUE] [--journal FILE]
#           [--timeout SECONDS] -- COMMAND [ARG]...
# with the TEXT that root's shell runs inside before the user runs COMMAND, whose
# status is its own. RIGFLAGS are more arguments of run, as for another system to
# copy. It takes some minutes.
rig: ## install, upgrade, hang and remove the Debian package under a systemd that RIG=program boots
	@test -n '$(RIG)' || { echo "make rig: say RIG=program; the Makefile says what it has to do"; exit 1; }
	E2E_RIG='$(abspath $(RIG))' E2E_RIG_FLAGS='$(RIGFLAGS)' $(GO) test -count=1 -v -timeout 30m -run '^TestPackage$$' ./internal/test/e2e

install: build install-units ## install the programs, the extensions, pages, completions and the systemd user units below PREFIX
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/libexec/thoughtgate'
	install -m 0755 bin/thoughtgated bin/tgctl '$(DESTDIR)$(PREFIX)/bin/'
	install -m 0755 bin/tg-shim bin/tg-fleet '$(DESTDIR)$(PREFIX)/libexec/thoughtgate/'
	@for name in $(EXTENSIONS); do \
		to='$(DESTDIR)$(PREFIX)/libexec/thoughtgate/extensions'/$$name; \
		rm -rf "$$to" && install -d "$$to" && cp -p bin/extensions/$$name/* "$$to" || exit 1; \
	done
	@rm -rf bin/man && SOURCE_DATE_EPOCH=$(EPOCH) bin/tgctl man bin/man
	@for page in tg-shim.1 thoughtgated.8; do \
		sed "s/@VERSION@/$(VERSION)/; s/@DATE@/$$(git log -1 --format=%cs 2>/dev/null || date +%F)/" packaging/man/$$page > bin/man/$$page || exit 1; \
	done
	@for section in 1 5 8; do \
		install -d '$(DESTDIR)$(PREFIX)'/share/man/man$$section && \
		install -m 0644 bin/man/*.$$section '$(DESTDIR)$(PREFIX)'/share/man/man$$section/ || exit 1; \
	done
	@for shell in $(COMPLETIONS); do \
		to='$(DESTDIR)$(PREFIX)/share'/$${shell#*:}; \
		install -d "$${to%/*}" && bin/tgctl completion $${shell%%:*} > "$$to" && chmod 0644 "$$to" || exit 1; \
	done
	@echo; echo 'Installed below $(PREFIX). Next:'; \
	if [ -d /run/systemd/system ] && [ -z '$(DESTDIR)' ]; then echo '  systemctl --user enable --now thoughtgated'; else echo '  tgctl daemon start'; fi; \
	echo '  tgctl doctor'; echo '  tgctl wrap -- claude     # or another agent'

# Where the completions of each shell belong, below PREFIX/share.
COMPLETIONS = bash:bash-completion/completions/tgctl zsh:zsh/site-functions/_tgctl fish:fish/vendor_completions.d/tgctl.fish

UNITS = thoughtgated.service thoughtgated.socket thoughtgated-shim.socket tgctl-notify.service tgctl-slack.service tgctl-phone.service tg-fleet.service

install-units: ## install only the units, with PREFIX in them; does nothing on macOS
	@[ "$$(uname -s)" = Linux ] || exit 0; \
	install -d '$(DESTDIR)$(UNITDIR)' && \
	for unit in $(UNITS); do \
		sed 's|=/usr/bin/|=$(PREFIX)/bin/|' contrib/systemd/$$unit > "$(DESTDIR)$(UNITDIR)/$$unit" && \
		chmod 0644 "$(DESTDIR)$(UNITDIR)/$$unit" || exit 1; \
	done

uninstall: ## remove what install put there; configuration and records stay
	rm -f '$(DESTDIR)$(PREFIX)/bin/thoughtgated' '$(DESTDIR)$(PREFIX)/bin/tgctl'
	rm -f '$(DESTDIR)$(PREFIX)/libexec/thoughtgate/tg-shim' '$(DESTDIR)$(PREFIX)/libexec/thoughtgate/tg-fleet'
	cd '$(DESTDIR)$(PREFIX)/share/man' 2>/dev/null && rm -f man1/tgctl.1 man1/tgctl-*.1 man1/tg-shim.1 man5/thoughtgate.yaml.5 man8/thoughtgated.8 || true
	cd '$(DESTDIR)$(PREFIX)/share' 2>/dev/null && rm -f bash-completion/completions/tgctl zsh/site-functions/_tgctl fish/vendor_completions.d/tgctl.fish || true
	cd '$(DESTDIR)$(PREFIX)/libexec/thoughtgate/extensions' 2>/dev/null && rm -rf $(EXTENSIONS) || true
	rmdir '$(DESTDIR)$(PREFIX)/libexec/thoughtgate/extensions' 2>/dev/null || true
	cd '$(DESTDIR)$(UNITDIR)' 2>/dev/null && rm -f $(UNITS) || true
	rmdir '$(DESTDIR)$(PREFIX)/libexec/thoughtgate' 2>/dev/null || true

clean: ## remove what was built here and the npm packages of the tests
	rm -rf bin dist $(NPM)/node_modules $(AGENTS)/node_modules

cc:
	@command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null || { \
		echo "make test: the race detector needs a C compiler, and there is no $$($(GO) env CC) here."; \
		echo "Install gcc, or run the tests without it: go test ./..."; exit 1; }

# The MCP servers that the end-to-end tests wrap come from npm, and so do agents.
# Without npm, and where it fails, the tests that need them say that they are
# skipped; all others run. What npm left half done is removed: it would look as if
# it were there.
npm:
	@$(call fetch,$(NPM),MCP servers)

# Qwen Code is not among them: npm can't write a lock file of it that npm ci accepts; nor is Crush, whose package
# fetches its program when it is installed. To test them, put them, at the versions that docs/agents.md names, into the
# folder of the others: Crush's program is @charmland/crush/bin/crush.
agents: ## install the agents of others that the tests wrap if they are there (a gigabyte)
	@$(call fetch,$(AGENTS),agents)

fetch = if [ ! -f $(1)/package-lock.json ] || [ $(1)/node_modules/.package-lock.json -nt $(1)/package-lock.json ]; then :; \
	elif ! command -v npm >/dev/null; then \
		echo "make: no npm here, so the tests with real $(2) will be skipped. Install Node.js to run them."; \
	elif ! npm ci --prefix $(1) --no-audit --no-fund --ignore-scripts; then \
		rm -rf $(1)/node_modules; \
		echo "make: npm has failed, see above, so the tests with real $(2) will be skipped."; \
	fi

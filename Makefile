# `make help` lists the targets.
SHELL := /usr/bin/env bash -euo pipefail
.DEFAULT_GOAL := help

VERSION ?= v0.1.0
IMAGE ?= ghcr.io/capbm-io/cluster-api-provider-baremetal:$(VERSION)
BIN := .cache/bin
ARCH ?= amd64
LAB_PROGRAMS := etcd kube-apiserver kube-controller-manager kubectl kubeadm hollow-kubelet \
	capi-core capi-kubeadm-bootstrap capi-kubeadm-control-plane clusterctl kustomize

# What tests wait for may take its time on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT ?= 30s

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Try it
.PHONY: demo
demo: ## Emulated servers become Running Machines. KEEP=1 leaves it running and prints its KUBECONFIG. LAB_DOWNLOAD=never builds all programs.
	@hack/build.sh $(LAB_PROGRAMS) lab manager
	@$(BIN)/lab demo $(if $(KEEP),--keep)

.PHONY: recording
recording: ## Record a demo as docs/demo.svg, the picture of the README.
	@go build -o $(BIN)/recording ./hack/recording
	@$(MAKE) --no-print-directory demo >/dev/null # so that everything is built
	@$(MAKE) --no-print-directory demo | $(BIN)/recording "make demo" >docs/demo.svg.new
	@mv docs/demo.svg.new docs/demo.svg

## Build it
# With the settings of the lab and the image: what they have compiled is not compiled again.
.PHONY: build
build: ## Build manager, bmcctl and bmcsim into .cache/bin.
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/...
	@ls $(BIN)/manager $(BIN)/bmcctl $(BIN)/bmcsim

.PHONY: image
image: ## Write the image and its SBOM to out/image/, as an OCI archive and without a container engine; Debian. ARCH=arm64 for the other architecture.
	@hack/image.sh $(IMAGE) $(VERSION) out/image/cluster-api-provider-baremetal-$(VERSION)-$(ARCH).tar $(ARCH)

.PHONY: agent
agent: ## Write kernel and ramdisk of the agent to out/agent/ARCH, for amd64 and arm64, from Debian's packages and without root; Debian.
	@hack/agent.sh $(VERSION) amd64 arm64

.PHONY: release
release: ## Write the files of a release page to out/release/VERSION, and a clusterctl repository to out/. IMAGE=NAME:TAG. RELEASE_KEY=FILE signs. Debian.
	@hack/build.sh kustomize
	@hack/releasepage.sh out $(VERSION) $(IMAGE)
	@ls out/release/$(VERSION)

## Read about it
.PHONY: site
site: ## Make the site from docs/ into out/site; needs python3-venv. Links to pages or headings that do not exist are errors.
	@hack/site.sh

.PHONY: linkcheck
linkcheck: ## Follow the links of the site to other sites; needs the Internet.
	@hack/site.sh linkcheck

## Work on it
.PHONY: test
test: test-programs ## All tests, with the race detector: unit, conformance, seedcheck, contract and crash.
	@# The second lane waits more than it works.
	@hack/lanes.sh "unit-packages" "-j2 -Otarget conformance seedcheck; contract; crash; unit-programs"

.PHONY: test-programs
test-programs: lab-programs peers # What several suites install: two package managers at once are in each other's way.
	@# With an empty Go cache the suites of contract would compile these within their time limits.
	@hack/build.sh lab manager
	@hack/promtool.sh
	@hack/seedtools.sh
	@hack/balancer.sh

# -count=1 where tests run other programs: Go's cache of test results sees what the test itself reads, and not what kustomize, clusterctl or
# a manager that it starts are made of or read.
.PHONY: unit
unit: ## Unit tests: unit-packages and unit-programs.
	@$(MAKE) --no-print-directory unit-packages
	@$(MAKE) --no-print-directory unit-programs

.PHONY: unit-packages
unit-packages: lab-programs peers ## Unit tests of the packages, controllers against a real API server (envtest), and drivers against emulated BMCs.
	@hack/promtool.sh
	@# These write gigabytes: the race detector makes them ten times as slow. The other tests of the package run with it.
	go test -timeout 15m -run '^Test(CutEverywhere|CutSeeded|Faults)$$' ./cmd/agent/internal/image
	@# Three packages at once on two processors: those with a controller wait more than they work. The longest start first.
	go test -race -p 3 -timeout 20m -skip '^Test(CutEverywhere|CutSeeded|Faults)$$' ./controllers/host ./controllers/boot $$(go list ./... | grep -v -e /cmd/internal/inventorycheck$$ -e /cmd/manager$$ -e /hack/docs$$ -e /hack/agenttest$$ -e /hack/bench/fleet$$ -e /hack/contract -e /hack/e2e$$ -e /hack/endure/crash$$ -e /hack/endure/matrix$$ -e /hack/imagecheck$$ -e /hack/netbench -e /hack/nodetest$$ -e /hack/osimagetest$$ -e /hack/seedcheck$$ -e /bmc/peertest$$)
	go -C hack/image test -race ./...

.PHONY: unit-programs
unit-programs: lab-programs ## Tests that run the manager and other programs.
	@hack/promtool.sh
	go test -race -count=1 -timeout 15m ./cmd/internal/inventorycheck ./cmd/manager ./hack/docs

.PHONY: properties-full
properties-full: ## The properties of the lifecycle over many more sequences, from a new SEED each time, and how often each state and transition was visited. CHECKS=5000
	@seed=$${SEED:-$$(date +%s)}; echo "seed $$seed"; \
	go test -count=1 -timeout 60m -v -run TestProperty ./inventory/lifecycle -rapid.seed=$$seed -rapid.checks=$(or $(CHECKS),5000)

.PHONY: mutants-full
mutants-full: lab-programs ## Break the packages of hack/mutants in each way of its tables; their tests must notice every one. MUTANTS="replayed,MAC" runs those that contain a part.
	MUTANTS=$(or $(MUTANTS),all) go test -count=1 -timeout 120m -v ./hack/mutants

.PHONY: conformance
conformance: peers ## The BMC conformance suite against software that we did not write: sushy-tools, virtualbmc, ipmi_sim.
	go test -race -timeout 15m ./bmc/peertest

CORPUS ?= ../shared/corpus

.PHONY: corpus
corpus: ## Read recorded Redfish services with the driver, and compare the inventories with those that a person read out of them. CORPUS=FOLDER
	@test -d "$(CORPUS)/redfish" || { echo "make corpus: $(CORPUS)/redfish does not exist: name the folder of the recordings with CORPUS=" >&2; exit 1; }
	CORPUS="$(abspath $(CORPUS))" go test -count=1 -timeout 10m -run '^TestCorpus$$' ./bmc/redfish

.PHONY: monitoring
monitoring: ## Let promtool check and test the alerts, and compare them and the dashboard with what a manager shows; a part of unit.
	@hack/build.sh etcd kube-apiserver kustomize
	@hack/promtool.sh
	go test -race -count=1 -timeout 10m -run '^(TestRules|TestDashboardQueries|TestWrong|TestLife)$$' -v ./cmd/manager | grep -v '^{'

.PHONY: seedcheck
seedcheck: ## Let cloud-init, netplan, systemd, NetworkManager and Ignition of Debian 12 read our seeds, and carry out the samples of BareMetalConfig.
	@hack/seedtools.sh
	go test -race -timeout 15m ./hack/seedcheck

.PHONY: bootstrap-goldens
bootstrap-goldens: ## Let the managers of bootstrap providers write the golden Secrets of seedcheck again; the others need a manager of their own.
	@hack/build.sh etcd kube-apiserver capi-kubeadm-bootstrap k3s-bootstrap talos-bootstrap
	for provider in kubeadm k3s talos; do go run ./hack/bootstrapproviders $$provider; done

.PHONY: contract
contract: lab-programs ## Cluster API's contract, beside its real managers and by the real clusterctl.
	@hack/balancer.sh
	go test -race -count=1 -p 3 -timeout 20m ./hack/contract/... # three suites at once: they wait more than they work

# A run waits more than it works: several go at once.
.PHONY: crash
crash: lab-programs ## Halt the manager at some of its writes and BMC commands, and expect that a fresh one ends as if nothing had happened. CRASH_SEED=N.
	CRASH_SAMPLE=$(or $(CRASH_SAMPLE),3) go test -race -count=1 -parallel 8 -timeout 15m ./hack/endure/crash

.PHONY: crash-full
crash-full: lab-programs ## The same at each of them, and print the report.
	CRASH_SAMPLE=0 go test -count=1 -parallel 8 -timeout 60m -v ./hack/endure/crash | grep -v -e '^=== ' -e '-- PASS'

.PHONY: imagecheck
imagecheck: ## Build the image and a release, let skopeo and umoci read them, and runc run the image as the Deployment says; root, Debian. PLATFORMS="linux/amd64 darwin/amd64 darwin/arm64" adds programs for macOS.
	@hack/build.sh etcd kube-apiserver kustomize
	@hack/imagecheck.sh
	@# Fetch and compile what the test needs, which has no network.
	@hack/image.sh $(IMAGE) $(VERSION) .cache/image/first.tar amd64 arm64
	@hack/programs.sh $(VERSION) none darwin/arm64 .cache/image/first bmcsim
	@for platform in $${PLATFORMS:-linux/arm64}; do hack/programs.sh $(VERSION) none $$platform .cache/image/first bmcctl bmcsim; done
	go test -race -count=1 -timeout 15m ./hack/imagecheck

.PHONY: agenttest
agenttest: osimage ## Boot the agent in QEMU with each kind of card, address and static network, and measure how it writes; root. AGENT_MEMORY=256,224 tries these MiB.
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/agenttest.sh $(VERSION) amd64 arm64
	go test -race -count=1 -timeout 60m -v ./hack/agenttest | grep -v '^=== '

.PHONY: erasetest
erasetest: ## Let the agent erase each kind of drive that QEMU has, with what a last owner wrote to it, and 24 disks at once, and leave alone what it must not touch, and check the boot medium; root.
	@hack/agenttest.sh $(VERSION) amd64 arm64
	go test -count=1 -timeout 15m -v -run '^Test(Erasure|MediumIsValid$$)' ./hack/agenttest | grep -v '^=== '

.PHONY: agent-figures
agent-figures: osimage ## Measure the agent in QEMU, for docs/agent.md; root.
	@hack/agenttest.sh $(VERSION)
	AGENT_HOSTS=$(or $(AGENT_HOSTS),10) AGENT_MEMORY=$(or $(AGENT_MEMORY),320) go test -count=1 -timeout 60m -v \
		-run '^Test(DHCP|Inspection|Memory|Throughput|ServersAtOnce)$$' ./hack/agenttest | grep -v '^=== '

.PHONY: e2e-programs
e2e-programs: osimage # What e2e runs: firmware, BMC software, guests, the images and the agent.
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/agenttest.sh $(VERSION)

.PHONY: e2e
e2e: e2e-programs ## The whole provider boots real firmware in QEMU, by real BMC software, to a real cloud-init, from the network and from an image on a disk; root.
	E2E=$(E2E) go test -race -count=1 -timeout 60m -parallel 2 ./hack/e2e

.PHONY: e2e-full
e2e-full: ## The same with all kinds of disks, and all ways by which firmware gets to the agent.
	@$(MAKE) --no-print-directory e2e E2E=full

.PHONY: e2e-node
e2e-node: nodeimage ## A virtual machine becomes a Node and is free again: Cluster API's managers, sushy-tools, an image, kubeadm's join, kubelet and containerd; root.
	@hack/build.sh $(LAB_PROGRAMS)
	@hack/agenttest.sh $(VERSION)
	go test -count=1 -timeout 60m -v -run '^TestWorker$$' ./hack/nodetest | grep -v '^=== '

.PHONY: e2e-control-plane
e2e-control-plane: ## The same for a control plane by kubeadm's init, with static Pods of the programs that the lab builds; root.
	@CONTROL_PLANE=1 hack/nodeimage.sh
	@hack/build.sh $(LAB_PROGRAMS)
	@hack/agenttest.sh $(VERSION)
	go test -count=1 -timeout 90m -v -run '^TestControlPlane$$' ./hack/nodetest | grep -v '^=== '

.PHONY: nodeimage
nodeimage: ## Make a disk image of a Kubernetes node in .cache/nodeimage; root, Debian. DRIVERS=all, PACKAGES="a b" and FILES=FOLDER adapt it; CONTROL_PLANE=1 makes that of a control plane.
	@hack/nodeimage.sh

.PHONY: osimage
osimage: ## Make disk images of operating systems for tests in .cache/osimage: Debian with cloud-init, and small ones; root, Debian.
	@hack/osimage.sh

.PHONY: osimage-test
osimage-test: osimage ## Boot these images in QEMU from each kind of disk, by BIOS, UEFI and Secure Boot, with bootstrap data on a partition; root.
	@hack/firmware.sh
	go test -race -count=1 -timeout 30m -parallel 2 -v ./hack/osimagetest | grep -v -e '^=== '

.PHONY: matrix
matrix: lab-programs ## A sample of the faults at the steps of a host's life, which MATRIX_SEED changes. MATRIX_CASE="clock,Down / boot" runs those that contain a part.
	go test -race -count=1 -timeout 20m -parallel 16 ./hack/endure/matrix -v | grep -v -e '^=== ' -e '^ *--- PASS'

.PHONY: matrix-full
matrix-full: lab-programs ## Every fault at every step of a host's life; half an hour and more.
	MATRIX=full go test -count=1 -timeout 120m -parallel 32 ./hack/endure/matrix -v | grep -v -e '^=== ' -e '^ *--- PASS'

# What it decides follows from SEED; what comes of it depends on the machine, too.
.PHONY: soak
soak: lab-programs ## 230 hosts for DURATION (20m) under faults, people and crashes of the manager, held to what must be true. SEED=1, HOSTS=200, WHOLE=30.
	@go build -o $(BIN)/soak ./hack/endure/soak
	@$(BIN)/soak --duration=$(or $(DURATION),20m) --seed=$(or $(SEED),1) --direct=$(or $(HOSTS),200) --whole=$(or $(WHOLE),30)

.PHONY: sigkill
sigkill: lab-programs ## Kill the manager KILLS (20) times at random moments of machines' lives; each ends as one without a crash. SEED=1.
	@go build -o $(BIN)/soak ./hack/endure/soak
	@$(BIN)/soak --kills=$(or $(KILLS),20) --seed=$(or $(SEED),1) --direct=6 --whole=0

.PHONY: generate
generate: ## Write what is generated: deep copies, CRDs, RBAC, webhooks.
	@hack/build.sh controller-gen
	$(BIN)/controller-gen object paths=./api/...
	$(BIN)/controller-gen crd:crdVersions=v1 paths=./api/v1alpha1 output:crd:dir=config/crd/bases
	$(BIN)/controller-gen crd:crdVersions=v1 paths=./api/bootstrap/... output:crd:dir=config/bootstrap/crd/bases
	$(BIN)/controller-gen rbac:roleName=capbm-manager,fileName=role.yaml \
		$$(go list -f 'paths={{.ImportPath}}' ./controllers/... ./cmd/... | grep -v -e /controllers/boot$$ -e /controllers/bootstrap) output:rbac:dir=config/rbac
	$(BIN)/controller-gen rbac:roleName=capbm-boot,fileName=boot_role.yaml paths=./controllers/boot output:rbac:dir=config/rbac
	$(BIN)/controller-gen rbac:roleName=capbm-bootstrap-manager,fileName=role.yaml paths=./controllers/bootstrap output:rbac:dir=config/bootstrap/rbac
	$(BIN)/controller-gen webhook paths=./controllers/webhook output:webhook:dir=config/webhook
	$(BIN)/controller-gen webhook paths=./controllers/bootstrap output:webhook:dir=config/bootstrap/webhook
	hack/monitoring.sh
	go run ./hack/docs reference

.PHONY: verify
verify: generate ## Check that generated files are up to date, that the code is formatted and linted, and that go.mod is tidy.
	@hack/build.sh golangci-lint kustomize
	@folder=$$(mktemp -d); hack/release.sh $$folder $(VERSION) $(IMAGE); rm -r $$folder
	go mod tidy
	go -C hack/image mod tidy # a module of its own, of Go code of ours
	@files="api config docs/reference go.mod go.sum hack/image/go.mod hack/image/go.sum"; test -z "$$(git status --porcelain -- $$files)" || { git --no-pager diff -- $$files; git status --short -- $$files; echo "verify: commit what 'make generate' and 'go mod tidy' write" >&2; exit 1; }
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(BIN)/golangci-lint run ./...
	cd hack/image && GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(CURDIR)/$(BIN)/golangci-lint run ./...
	go test . # the laws

.PHONY: fuzz
fuzz: ## Fuzz the parsers of network input, each for FUZZTIME (30s).
	hack/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: peers
peers: ## Install the BMC software that the conformance suite runs against: Debian packages (as root), and .cache/peers.
	@hack/peers.sh

.PHONY: bench
bench: ## What BMCs cost: CPU, allocations and bytes for each poll and each idle BMC, 1,000 emulated BMCs; and what decisions, answers, scripts and tokens cost.
	@hack/build.sh etcd kube-apiserver # the tests of controllers/boot begin with an API server
	go test -run '^$$' -bench PowerPoll -benchtime 5000x ./bmc/redfish
	go test -run '^$$' -bench . -benchtime 3000x ./bmc/ipmi
	go test -run '^$$' -bench . ./inventory/claim ./inventory/lifecycle ./pxe/dhcp ./pxe/ipxe ./pxe/seed
	go test -run '^$$' -bench 'Request|Token|Image' ./pxe ./controllers/boot

.PHONY: bench-fleet
bench-fleet: N ?= 500
bench-fleet: lab-programs ## What N (500) hosts cost the manager, its API server and etcd, phase by phase, into hack/bench/results. BOOTS, MANAGERS, IDLE=5m, PROFILES=FOLDER.
	@mkdir -p hack/bench/results
	@go build -o $(BIN)/fleet ./hack/bench/fleet
	@$(BIN)/fleet --hosts=$(N) $(if $(BOOTS),--boots=$(BOOTS)) $(if $(MANAGERS),--managers=$(MANAGERS)) $(if $(IDLE),--idle=$(IDLE)) \
		$(if $(PROFILES),--profiles=$(PROFILES)) --out=hack/bench/results/$(N)$(if $(filter-out 1,$(MANAGERS)),-$(MANAGERS)managers).json

.PHONY: bench-check
bench-check: lab-programs ## A fleet of 20 hosts through all phases of bench-fleet: they work, and no host costs more API requests than it may.
	go test -count=1 -timeout 10m ./hack/bench/fleet

.PHONY: bench-compare
bench-compare: ## How two runs of bench-fleet differ: OLD=FILE NEW=FILE.
	@go run ./hack/bench/compare $(OLD) $(NEW)

.PHONY: netbench
netbench: ## DHCP, TFTP and HTTP under load, beside kea, dnsmasq, tftpd-hpa and nginx, on this machine; root.
	@hack/build.sh etcd kube-apiserver
	@hack/loaders.sh .cache/loaders
	@hack/netbench.sh
	go test -count=1 -timeout 20m -v ./hack/netbench | grep -e '^    [a-z_]*.go' -e '^---'

.PHONY: media-bench
media-bench: ## Ranges of a boot medium under load, beside nginx with a file of the same content, on this machine.
	@hack/loaders.sh .cache/loaders
	@hack/agent.sh $(VERSION) amd64
	@hack/netbench.sh
	go test -count=1 -timeout 10m -v ./hack/netbench/media | grep -e '^    [a-z_]*.go' -e '^---'

.PHONY: lab-programs
lab-programs: # The programs of the lab, downloaded or built once.
	@hack/build.sh $(LAB_PROGRAMS)

.PHONY: clean
clean: ## Remove everything that was built.
	rm -rf .cache out

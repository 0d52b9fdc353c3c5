# `make help` lists the targets.
SHELL := /usr/bin/env bash -euo pipefail
.DEFAULT_GOAL := help

VERSION ?= v0.1.0
IMAGE ?= ghcr.io/capbm-io/cluster-api-provider-baremetal:$(VERSION)
BIN := .cache/bin
ARCH ?= amd64
LAB_PROGRAMS := etcd kube-apiserver kube-controller-manager kubectl kubeadm hollow-kubelet \
	capi-core capi-kubeadm-bootstrap capi-kubeadm-control-plane clusterctl

# What tests wait for may take its time on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT ?= 30s

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

.PHONY: recording-plugin
recording-plugin: ## 4 min: record kubectl baremetal status, why and events in the lab, with faults, as docs/status.svg, docs/why.svg and docs/events.svg.
	@hack/build.sh $(LAB_PROGRAMS) lab manager
	@go build -o $(BIN)/recording ./hack/recording
	@$(MAKE) --no-print-directory plugin
	@hack/recording/plugin.sh

## Build it
# With the settings of the lab and the image: what they have compiled is not compiled again.
.PHONY: build
build: ## Build manager, bmcctl, bmcsim and kubectl-baremetal into .cache/bin.
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/...
	@ls $(BIN)/manager $(BIN)/bmcctl $(BIN)/bmcsim $(BIN)/kubectl-baremetal

.PHONY: plugin
plugin: ## Build kubectl-baremetal and its completion into .cache/bin: with that in PATH, "kubectl baremetal" works.
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/kubectl-baremetal
	@ln -sf kubectl-baremetal $(BIN)/kubectl_complete-baremetal

.PHONY: image
image: ## Write the image and its SBOM to out/image/, as an OCI archive and without a container engine; Debian. ARCH=arm64 for the other architecture.
	@hack/image.sh $(IMAGE) $(VERSION) out/image/cluster-api-provider-baremetal-$(VERSION)-$(ARCH).tar $(ARCH)

.PHONY: agent
agent: ## Write kernel and ramdisk of the agent to out/agent/ARCH, for amd64 and arm64, from Debian's packages and without root; Debian.
	@hack/agent.sh $(VERSION) amd64 arm64

.PHONY: release
release: ## Write the files of a release page to out/release/VERSION, and a clusterctl repository to out/. IMAGE=NAME:TAG. RELEASE_KEY=FILE signs. Debian.
	@hack/build.sh kubectl
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
# What the tests of one run have in common. SHARD is the tenth of the long suites that this commit runs, SEED what random values start from: ten commits run every
# case once, and each tree draws other values. "make test-system SHARD=3 SEED=7" repeats a run.
ifndef SHARD
export SHARD := $(shell echo $$(($$(git rev-list --count HEAD 2>/dev/null || echo 0) % 10)))
endif
ifndef SEED
export SEED := $(shell echo $$((0x$$(git rev-parse 'HEAD^{tree}' 2>/dev/null | cut -c1-8 | grep . || echo 1))))
endif

# Packages whose tests are suites of their own, which other targets run.
SUITES := /bmc/peertest$$ /hack/agenttest$$ /hack/bench/fleet$$ /hack/bench/plugin$$ /hack/contract/[a-z]*$$ /hack/e2e$$ /hack/endure/crash$$ /hack/endure/matrix$$ /hack/endure/upgrade$$ /hack/imagecheck$$ \
	/hack/mutants$$ /hack/netbench /hack/nodetest$$ /hack/osimagetest$$ /hack/seedcheck$$
# Without goroutines and locks, or only with those of programs that they run: the race detector would find nothing, and makes them up to ten times as slow. TestPurePackages checks it.
PURE := . ./api/... ./inventory ./inventory/cleaning/... ./inventory/diskname ./inventory/erasure/... ./inventory/health ./inventory/lifecycle/... ./inventory/promise ./inventory/usertemplate ./inventory/why \
	./cmd/agent/internal/disk/... ./cmd/agent/internal/fit/... ./cmd/agent/internal/retry \
	./cmd/internal/inventorycheck ./cmd/internal/rackfile ./cmd/internal/recording ./cmd/internal/terminal ./cmd/internal/version \
	$(addprefix ./cmd/kubectl-baremetal/internal/,access bundle certificate chain eraserequest plan timeline view) ./controllers/bootstrap/render ./controllers/cluster ./controllers/erasure ./controllers/profile ./cmd/provider \
	./pxe/agent/... ./pxe/bootconfig/... ./pxe/internal/grub/... ./pxe/internal/quota ./pxe/image/internal/convert/... ./pxe/image/internal/format/... ./pxe/image/gpt/... ./pxe/image/internal/layout/... ./pxe/image/manifest ./pxe/ipxe/... ./pxe/iso/... ./pxe/loader ./pxe/seed/... \
	./hack/agent ./hack/bench/compare ./hack/bench/report ./hack/contract ./hack/docs ./hack/lab/node ./hack/osimage/... ./hack/recording ./hack/shard ./hack/testreport
# Some tests of these packages write, hash or parse gigabytes: the race detector makes them ten times as slow. The others run with it.
WRITERS := ./cmd/agent/internal/image ./cmd/agent/internal/erase ./bmc/redfish
WRITES := ^(Test(CutEverywhere|CutSeeded|Cut|Faults|Network|Refusals|Metadata|MetadataFailures|MetadataPowerCut|Methods|NeverTouched|EmptyIsReadBack|Write)|Fuzz(Tree|Health))$$
# Packages whose tests have the most deadlines and connections: make stability repeats them.
TIMED := ./bmc ./bmc/bmctest ./bmc/bmclib ./bmc/ipmi ./bmc/redfish ./cmd/agent/internal/link ./cmd/agent/internal/runner ./controllers/gateway ./pxe/dhcp ./pxe/server ./pxe/internal/tftp
# They run programs of a distribution: make conformance and make monitoring run them.
PROGRAMS := ^Test(RealIpmitool.*|CpioReadsArchive)$$
MONITORING := ^Test(Rules|DashboardQueries|Wrong|Life)$$

.PHONY: test
test: ## 10 min: what a change of the code can break. No root, no package of a distribution.
	@hack/build.sh etcd kube-apiserver kubectl
	@# controllers/host waits more than it works: two processes, each with an API server of its own. What takes longest is distributed so that all lanes end together, and
	@# cmd/manager, which waits most, begins at once.
	@others=$$(go list ./... | grep -v $(SUITES:%=-e %) | grep -v -x -F -f <(go list $(PURE)) | grep -v -e /cmd/manager$$ -e /controllers/host$$ -e /controllers/boot$$ -e /controllers/machine$$ -e /controllers/remediation$$ | grep -v -x -F -f <(go list $(WRITERS)) | tr '\n' ' '); \
	hack/gotest.sh test \
		"-race -p 3 -timeout 30m -skip $(PROGRAMS)|^TestCorpus ./controllers/boot ./controllers/machine $$others" \
		-- "-race -parallel 8 -timeout 30m -run ^Test[A-O] ./controllers/host" \
		"-timeout 30m ./controllers/remediation" \
		-- "-race -parallel 8 -timeout 30m -skip ^Test[A-O] ./controllers/host" \
		-- "-race -count=1 -timeout 30m -skip $(MONITORING) ./cmd/manager" \
		-- "-p 1 -timeout 30m $(PURE)" \
		"-timeout 30m -run $(WRITES) $(WRITERS)" \
		"-race -timeout 30m -skip $(WRITES)|^TestCorpus $(WRITERS)" \
		"-timeout 15m -skip ^Test(Spec)?Mutants$$ ./hack/mutants"

.PHONY: verify
verify: generate ## 2 min: generated files are up to date, code is formatted and linted, go.mod is tidy.
	@hack/build.sh golangci-lint kubectl
	@folder=$$(mktemp -d); hack/release.sh $$folder $(VERSION) $(IMAGE); rm -r $$folder
	go mod tidy
	for module in image capispecs; do go -C hack/$$module mod tidy; done # modules of their own, of Go code of ours
	@files="api config docs/reference go.mod go.sum hack/image/go.mod hack/image/go.sum hack/capispecs/go.mod hack/capispecs/go.sum"; test -z "$$(git status --porcelain -- $$files)" || { git --no-pager diff -- $$files; git status --short -- $$files; echo "verify: commit what 'make generate' and 'go mod tidy' write" >&2; exit 1; }
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(BIN)/golangci-lint run --allow-parallel-runners ./...
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(BIN)/golangci-lint run --allow-parallel-runners -c .golangci-kal.yml ./api/...
	for module in image capispecs; do (cd hack/$$module && GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(CURDIR)/$(BIN)/golangci-lint run --allow-parallel-runners ./...); done
	go -C hack/image test ./...

.PHONY: test-system
test-system: lab-programs ## 12 min: the tenth SHARD of crashes and faults, and the rules of Cluster API's contract.
	@hack/gotest.sh system "-count=1 -p 3 -parallel 12 -timeout 30m ./hack/endure/crash ./hack/endure/matrix ./hack/contract/rules"

.PHONY: test-specs
test-specs: lab-programs ## 2 min: Cluster API's QuickStartSpec with all kinds of this provider: owners, finalizers, and no write at rest.
	@hack/capispecs.sh ci

.PHONY: test-vm
test-vm: e2e-programs ## 6 min: real firmware in QEMU boots by BIOS, by Secure Boot and from virtual media, gets an image and is erased; root, Debian 12.
	@hack/gotest.sh vm "-count=1 -timeout 60m -parallel 2 -run ^(TestImaging|TestVirtualMedia)$$/^(BIOS_on_AHCI|Secure_Boot_on_NVMe)$$ ./hack/e2e"

.PHONY: test-all
test-all: ## Hours: everything, as .ci/nightly runs it; root, Debian 12. Continues after an interruption.
	@.ci/nightly

## Run one part of the tests
.PHONY: contract
contract: lab-programs ## 38 min: Cluster API's contract, beside its real managers and by the real clusterctl.
	@hack/gotest.sh contract "-race -count=1 -p 3 -timeout 60m ./hack/contract/..." # three suites at once: they wait more than they work

.PHONY: capi-specs
capi-specs: lab-programs ## 40 min: Cluster API's specs for providers, and the upgrade of the manager: LABEL=NAME runs one, V=1 prints its steps.
	@hack/build.sh kube-scheduler
	@hack/capispecs.sh '$(or $(LABEL),nightly)'

.PHONY: capi-specs-mutants
capi-specs-mutants: lab-programs ## Break what a spec must notice, one part at a time. SPEC_MUTANTS="part of a name,another"
	@SPEC_MUTANTS='$(or $(SPEC_MUTANTS),all)' hack/gotest.sh spec-mutants "-count=1 -timeout 150m -run ^TestSpecMutants$$ ./hack/mutants"

.PHONY: crash-full
crash-full: lab-programs ## 40 min: halt the manager before or after each of its writes and BMC commands; a fresh one ends as if nothing had happened.
	@SHARD=all hack/gotest.sh crash "-count=1 -parallel 16 -timeout 90m ./hack/endure/crash"

.PHONY: matrix-full
matrix-full: lab-programs ## 30 min: every fault at every step of a host's life.
	@SHARD=all hack/gotest.sh matrix "-count=1 -timeout 120m -parallel 24 ./hack/endure/matrix"

.PHONY: soak
soak: lab-programs ## 25 min: 230 hosts for DURATION=20m under faults, people and crashes of the manager, held to what must be true. HOSTS=200, WHOLE=30.
	@go build -o $(BIN)/soak ./hack/endure/soak
	@$(BIN)/soak --duration=$(or $(DURATION),20m) --seed=$(SEED) --direct=$(or $(HOSTS),200) --whole=$(or $(WHOLE),30)

.PHONY: sigkill
sigkill: lab-programs ## 11 min: kill the manager KILLS=20 times at random moments of machines' lives; each ends as one without a crash.
	@go build -o $(BIN)/soak ./hack/endure/soak
	@$(BIN)/soak --kills=$(or $(KILLS),20) --seed=$(SEED) --direct=6 --whole=0

.PHONY: conformance
conformance: peers ## 3 min: the drivers against BMC software of others: sushy-tools, virtualbmc, ipmi_sim; Debian 12.
	@hack/gotest.sh conformance "-race -count=1 -timeout 20m ./bmc/peertest" "-race -count=1 -timeout 20m -run $(PROGRAMS) ./bmc/bmclib ./hack/agent"

CORPUS ?= ../shared/corpus

.PHONY: corpus
corpus: ## 1 min: the Redfish driver and bmcctl plan read recorded services of real BMCs, which are not a part of the project. CORPUS=FOLDER
	@test -d "$(CORPUS)/redfish" || { echo "make corpus: $(CORPUS)/redfish does not exist: name the folder of the recordings with CORPUS=" >&2; exit 1; }
	@CORPUS="$(abspath $(CORPUS))" hack/gotest.sh corpus "-count=1 -timeout 10m -run ^TestCorpus ./bmc/redfish ./cmd/bmcctl"

.PHONY: stability
stability: lab-programs ## 45 min: the tests with the most deadlines, TIMES=20 times in a row while all processors are busy.
	@hack/stability.sh $(or $(TIMES),20) "-race -p 2 -timeout 100m -skip $(PROGRAMS)|^Test(Corpus.*|HostileTables)$$|^FuzzTree$$ $(TIMED)"

.PHONY: upgrade
upgrade: ## 1 min: the agent of the release before works with this boot server, or is refused before it touches a disk, and the other way round.
	@hack/build.sh etcd kube-apiserver
	@hack/gotest.sh upgrade "-count=1 -timeout 60m ./hack/endure/upgrade"

.PHONY: monitoring
monitoring: ## 1 min: promtool checks and tests the alerts; they and the dashboard fit what a manager shows; Debian.
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/promtool.sh
	@hack/gotest.sh monitoring "-race -count=1 -timeout 15m -run $(MONITORING) ./cmd/manager"

.PHONY: seedcheck
seedcheck: ## 1 min: cloud-init, netplan, systemd, NetworkManager and Ignition read bootstrap data of the provider; Debian 12.
	@hack/seedtools.sh
	@hack/gotest.sh seedcheck "-race -count=1 -timeout 15m ./hack/seedcheck"

.PHONY: bench-check
bench-check: lab-programs ## 3 min: 20 hosts through all phases of bench-fleet; no host, and no command of kubectl baremetal, costs more API requests than it may.
	@hack/gotest.sh bench "-count=1 -timeout 15m ./hack/bench/fleet ./hack/bench/plugin"

.PHONY: mutants-full
mutants-full: lab-programs ## 60 min and more: break the guards of hack/mutants, one at a time; tests must notice. MUTANTS="part of a name,another"
	@SHARD=all MUTANTS=$(or $(MUTANTS),all) hack/gotest.sh mutants "-count=1 -timeout 150m -skip ^TestSpecMutants$$ ./hack/mutants"

.PHONY: properties-full
properties-full: ## 5 min: the properties of the lifecycle over CHECKS=5000 sequences, and how often each state and transition was visited.
	go test -count=1 -timeout 60m -v -run TestProperty ./inventory/lifecycle -rapid.seed=$(SEED) -rapid.checks=$(or $(CHECKS),5000)

.PHONY: fuzz
fuzz: ## 27 min: fuzz the parsers of untrusted input, each for FUZZTIME=30s.
	@hack/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: imagecheck
imagecheck: ## 4 min: build the image and a release; skopeo and umoci read them, runc runs the image as the Deployment does; root, Debian. PLATFORMS="darwin/arm64"
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/imagecheck.sh
	@# Fetch and compile what the test needs, which has no network.
	@hack/image.sh $(IMAGE) $(VERSION) .cache/image/first.tar amd64 arm64
	@hack/programs.sh $(VERSION) none darwin/arm64 .cache/image/first bmcsim
	@for platform in $${PLATFORMS:-linux/arm64}; do hack/programs.sh $(VERSION) none $$platform .cache/image/first bmcctl bmcsim kubectl-baremetal; done
	@hack/gotest.sh imagecheck "-race -count=1 -timeout 20m ./hack/imagecheck"

.PHONY: e2e
e2e: e2e-programs ## 30 min: all kinds of firmware, disks and networks boot in QEMU, with BMC software of others; root, Debian 12.
	@hack/gotest.sh e2e "-race -count=1 -timeout 90m -parallel 2 ./hack/e2e"

.PHONY: e2e-node
e2e-node: nodeimage ## 9 min: a virtual machine becomes a Node by kubeadm join, and is free again; root, Debian 12.
	@hack/build.sh $(LAB_PROGRAMS)
	@hack/agenttest.sh $(VERSION)
	@hack/gotest.sh node "-count=1 -timeout 60m -run ^TestWorker$$ ./hack/nodetest"

.PHONY: e2e-control-plane
e2e-control-plane: ## 14 min: the same for a control plane by kubeadm init; root, Debian 12.
	@CONTROL_PLANE=1 hack/nodeimage.sh
	@hack/build.sh $(LAB_PROGRAMS)
	@hack/agenttest.sh $(VERSION)
	@hack/gotest.sh control-plane "-count=1 -timeout 90m -run ^TestControlPlane$$ ./hack/nodetest"

.PHONY: erasetest
erasetest: ## 4 min: the agent erases each kind of drive that QEMU has, leaves alone what it must not touch, and boot media are valid; root, Debian 12.
	@hack/agenttest.sh $(VERSION) amd64 arm64
	@hack/gotest.sh erase "-count=1 -timeout 20m -run ^Test(Erasure|MediumIsValid$$) ./hack/agenttest"

.PHONY: agenttest
agenttest: osimage ## 25 min: the agent in QEMU with each kind of card and network, and how it writes; root, Debian 12. AGENT_MEMORY=256,224
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/agenttest.sh $(VERSION) amd64 arm64
	@hack/gotest.sh agent "-race -count=1 -timeout 90m ./hack/agenttest"

.PHONY: osimage-test
osimage-test: osimage ## 6 min: the disk images of the tests boot from each kind of disk, by BIOS, UEFI and Secure Boot; root, Debian 12.
	@hack/firmware.sh
	@hack/gotest.sh osimage "-race -count=1 -timeout 30m -parallel 2 ./hack/osimagetest"

## Measure
.PHONY: bench
bench: ## 3 min: what BMCs, decisions, DHCP answers, scripts and tokens cost.
	@hack/build.sh etcd kube-apiserver # the tests of controllers/boot begin with an API server
	go test -run '^$$' -bench PowerPoll -benchtime 5000x ./bmc/redfish
	go test -run '^$$' -bench . -benchtime 3000x ./bmc/ipmi
	go test -run '^$$' -bench . ./inventory/claim ./inventory/lifecycle ./pxe/dhcp ./pxe/ipxe ./pxe/seed
	go test -run '^$$' -bench 'Request|Token|Image' ./pxe ./controllers/boot

.PHONY: bench-fleet
bench-fleet: N ?= 500
bench-fleet: lab-programs ## 11 min: what N=500 hosts cost the manager, its API server and etcd, by phase. BOOTS, MANAGERS, IDLE=5m, PROFILES=FOLDER.
	@mkdir -p hack/bench/results
	@go build -o $(BIN)/fleet ./hack/bench/fleet
	@$(BIN)/fleet --hosts=$(N) $(if $(BOOTS),--boots=$(BOOTS)) $(if $(MANAGERS),--managers=$(MANAGERS)) $(if $(IDLE),--idle=$(IDLE)) \
		$(if $(PROFILES),--profiles=$(PROFILES)) --out=hack/bench/results/$(N)$(if $(filter-out 1,$(MANAGERS)),-$(MANAGERS)managers).json

.PHONY: bench-plugin
bench-plugin: ## 5 min: what commands of kubectl baremetal take with HOSTS=10000 hosts, 300 of which boot.
	@hack/build.sh etcd kube-apiserver
	HOSTS=$(or $(HOSTS),10000) go test -run '^$$' -bench Plugin -benchtime 5x -timeout 60m ./hack/bench/plugin

.PHONY: bench-compare
bench-compare: ## How two runs of bench-fleet differ: OLD=FILE NEW=FILE.
	@go run ./hack/bench/compare $(OLD) $(NEW)

.PHONY: netbench
netbench: ## 5 min: DHCP, TFTP and HTTP under load, beside kea, dnsmasq, tftpd-hpa and nginx; root, Debian 12.
	@hack/build.sh etcd kube-apiserver
	@hack/loaders.sh .cache/loaders
	@hack/netbench.sh
	go test -count=1 -timeout 20m -v ./hack/netbench | grep -e '^    [a-z_]*.go' -e '^---'

.PHONY: media-bench
media-bench: ## 2 min: ranges of a boot medium under load, beside nginx; Debian 12.
	@hack/loaders.sh .cache/loaders
	@hack/agent.sh $(VERSION) amd64
	@hack/netbench.sh
	go test -count=1 -timeout 10m -v ./hack/netbench/media | grep -e '^    [a-z_]*.go' -e '^---'

.PHONY: agent-figures
agent-figures: osimage ## 15 min: the figures of docs/agent.md; root, Debian 12.
	@hack/agenttest.sh $(VERSION)
	AGENT_HOSTS=$(or $(AGENT_HOSTS),10) AGENT_MEMORY=$(or $(AGENT_MEMORY),320) go test -count=1 -timeout 60m -v \
		-run '^Test(DHCP|Inspection|Memory|Throughput|ServersAtOnce)$$' ./hack/agenttest | grep -v '^=== '

## Make and install
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

.PHONY: bootstrap-goldens
bootstrap-goldens: ## The golden Secrets of seedcheck, by the managers of bootstrap providers.
	@hack/build.sh etcd kube-apiserver capi-kubeadm-bootstrap k3s-bootstrap talos-bootstrap
	for provider in kubeadm k3s talos; do go run ./hack/bootstrapproviders $$provider; done

.PHONY: osimage
osimage: ## Disk images of operating systems for tests, in .cache/osimage; root, Debian.
	@hack/osimage.sh

.PHONY: nodeimage
nodeimage: ## A disk image of a Kubernetes node, in .cache/nodeimage; root, Debian. DRIVERS=all, PACKAGES="a b", FILES=FOLDER, CONTROL_PLANE=1
	@hack/nodeimage.sh

.PHONY: peers
peers: ## The BMC software of conformance and e2e: Debian packages (as root), and .cache/peers; Debian 12.
	@hack/peers.sh

.PHONY: e2e-programs
e2e-programs: osimage # What e2e runs: firmware, BMC software, guests, the images and the agent.
	@hack/build.sh etcd kube-apiserver kubectl
	@hack/agenttest.sh $(VERSION)

.PHONY: lab-programs
lab-programs: # The programs of the lab, downloaded or built once.
	@hack/build.sh $(LAB_PROGRAMS)

.PHONY: clean
clean: ## Remove everything that was built.
	rm -rf .cache out

.PHONY: print-shard print-seed
print-shard:
	@echo $(SHARD)
print-seed:
	@echo $(SEED)

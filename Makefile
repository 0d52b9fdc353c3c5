# `make help` lists the targets.
SHELL := /usr/bin/env bash -euo pipefail
.DEFAULT_GOAL := help

VERSION ?= v0.1.0
IMAGE ?= ghcr.io/capbm-io/cluster-api-provider-baremetal:$(VERSION)
BIN := .cache/bin
OUT := out/infrastructure-baremetal/$(VERSION)
LAB_PROGRAMS := etcd kube-apiserver kube-controller-manager kubectl kubeadm hollow-kubelet \
	capi-core capi-kubeadm-bootstrap capi-kubeadm-control-plane clusterctl kustomize

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Try it
.PHONY: demo
demo: lab-programs ## Emulated servers become Running Machines. KEEP=1 leaves it running and prints its KUBECONFIG.
	@echo "building the lab (a minute or two with an empty Go cache)"
	@go build -o $(BIN)/lab ./hack/lab
	@$(BIN)/lab demo $(if $(KEEP),--keep)

## Work on it
.PHONY: test
test: ## All tests, with the race detector: unit, conformance and move.
	@for part in unit conformance move; do \
		start=$$SECONDS; $(MAKE) --no-print-directory $$part; echo "== $$part took $$((SECONDS - start)) s"; \
	done

.PHONY: unit
unit: lab-programs peers ## Unit tests, controllers against a real API server (envtest), and drivers against emulated BMCs.
	go test -race -timeout 15m $$(go list ./... | grep -v -e /hack/lab$$ -e /hack/e2e$$ -e /bmc/peertest$$)

.PHONY: conformance
conformance: peers ## The BMC conformance suite against software that we did not write: sushy-tools, virtualbmc, ipmi_sim.
	go test -race -timeout 15m ./bmc/peertest

.PHONY: move
move: lab-programs ## clusterctl move between two real management planes.
	go test -race -timeout 15m ./hack/lab

.PHONY: e2e
e2e: ## Boot real firmware in QEMU; root.
	@hack/firmware.sh
	go test -race -count=1 -timeout 15m ./hack/e2e

.PHONY: generate
generate: ## Write what is generated: deep copies, CRDs, RBAC.
	@hack/build.sh controller-gen
	$(BIN)/controller-gen object paths=./api/...
	$(BIN)/controller-gen crd:crdVersions=v1 paths=./api/... output:crd:dir=config/crd/bases
	$(BIN)/controller-gen rbac:roleName=capbm-manager paths="{./controllers/...,./cmd/...}" output:rbac:dir=config/rbac

.PHONY: verify
verify: generate ## Check that generated files are up to date, that the code is formatted and linted, and that go.mod is tidy.
	@hack/build.sh golangci-lint
	go mod tidy
	@test -z "$$(git status --porcelain -- api config go.mod go.sum)" || { git --no-pager diff -- api config go.mod go.sum; git status --short -- api config go.mod go.sum; echo "verify: commit what 'make generate' and 'go mod tidy' write" >&2; exit 1; }
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(BIN)/golangci-lint run ./...
	go test . # the laws

.PHONY: fuzz
fuzz: ## Fuzz the parsers of network input, each for FUZZTIME (30s).
	hack/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: peers
peers: ## Install the BMC software that the conformance suite runs against: Debian packages (as root), and .cache/peers.
	@hack/peers.sh

.PHONY: bench
bench: ## What BMCs cost: CPU, allocations and bytes for each poll and each idle BMC, 1,000 emulated BMCs.
	go test -run '^$$' -bench PowerPoll -benchtime 5000x ./bmc/redfish
	go test -run '^$$' -bench . -benchtime 3000x ./bmc/ipmi

.PHONY: build
build: ## Build the manager, bmcsim and bmcctl.
	CGO_ENABLED=0 go build -o $(BIN)/ ./cmd/...

.PHONY: release
release: ## Write what clusterctl installs to out/.
	@hack/build.sh kustomize
	@mkdir -p $(OUT)
	@$(BIN)/kustomize build config/default | sed 's#ghcr.io/capbm-io/cluster-api-provider-baremetal:dev#$(IMAGE)#' > $(OUT)/infrastructure-components.yaml
	@$(BIN)/kustomize build config/templates > $(OUT)/cluster-template.yaml
	@cp metadata.yaml $(OUT)/metadata.yaml
	@ls $(OUT)

.PHONY: lab-programs
lab-programs: # The programs of the lab, built once.
	@hack/build.sh $(LAB_PROGRAMS)

.PHONY: clean
clean: ## Remove everything that was built.
	rm -rf .cache out

// Package provider has the name of the provider, as clusterctl knows it. The manifests beside it are the source: release files are made from them.
package provider

import (
	_ "embed" // the manifests
	"strings"
)

//go:embed infrastructure/kustomization.yaml
var infrastructure string

//go:embed bootstrap/kustomization.yaml
var bootstrap string

// label is the label that clusterctl's contract demands of each object of a provider.
const label = "cluster.x-k8s.io/provider: "

// Infrastructure is the value of the label for the infrastructure provider: "infrastructure-" and the name. It is also the name of the folder of its releases.
var Infrastructure = value(infrastructure)

// Bootstrap is the same for the bootstrap provider.
var Bootstrap = value(bootstrap)

// Name is the name of both: ORGANISATION-NAME, as the list of providers of clusterctl demands.
var Name = strings.TrimPrefix(Infrastructure, "infrastructure-")

func value(manifest string) string {
	_, after, _ := strings.Cut(manifest, label)
	line, _, _ := strings.Cut(after, "\n")
	return line
}

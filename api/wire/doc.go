// Package wire has the types that the agent, the boot server and the API share: what they say about the same thing is one type. It has no logic except the order of
// policies, and imports only the standard library, because the agent must not link Kubernetes. The markers are those of the API.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
// +versionName=v1alpha1
package wire

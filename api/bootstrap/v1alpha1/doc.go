// Package v1alpha1 holds the API types of the bare metal bootstrap provider for Cluster API: their fields, their validation, and the names of
// their conditions and reasons. It holds no logic.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1alpha1

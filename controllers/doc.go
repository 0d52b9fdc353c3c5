// Package controllers holds what the controllers share; each controller has a folder of its own. It reads the machine of a host, defines the indexes
// of the cache, and maps the provider's errors to conditions and requeues.
package controllers

// FieldOwner is the field manager of the controllers' writes. The admission policy capbm-system-hosts-state lets no other write change spec.providerState of a host: an
// account that may do everything, as that of a GitOps tool, applies manifests under a name of its own.
const FieldOwner = "capbm"

// Package controllers holds what the controllers, one folder a kind, share: how they see a host's machine, which indexes the
// cache keeps, and how the provider's errors become conditions and requeues.
package controllers

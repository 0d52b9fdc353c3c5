// Package controllers holds what the controllers share; each controller has a folder of its own. It reads the machine of a host, defines the indexes
// of the cache, and maps the provider's errors to conditions and requeues.
package controllers

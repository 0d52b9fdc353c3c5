// Package registration registers the servers of a file (package rackfile) with a management cluster: a BareMetalHost for each, and a Secret with the credentials of its BMC.
// It applies all lines or none.
package registration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/rackfile"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
)

// ErrReported is the error of a registration that has already printed its error.
var ErrReported = errors.New("the error was printed")

const (
	// workers is the number of concurrent requests.
	workers = 8
	// requestTimeout is the timeout of each request.
	requestTimeout = 30 * time.Second
)

// Registration is a registration of the servers in one file.
type Registration struct {
	// Program is the command, for messages.
	Program string
	// Client has a scheme with the core types and v1alpha1. It is not needed for Print.
	Client client.Client
	// Namespace is that of the hosts.
	Namespace string
	// DryRun lets the API server validate everything and changes nothing.
	DryRun bool
	// ForceConflicts overwrites fields that another client has set to other values.
	ForceConflicts bool
	// ReplaceBMC changes the BMC address of hosts that exist. Without it, such a line is refused.
	ReplaceBMC bool
	// Consent is called before anything is applied, after the changes were printed. An error ends the registration. Nil asks nobody.
	Consent func() error
	// RequestedBy is who asks for the registration, and why. The hosts that are created or changed get it as an annotation. It may be empty.
	RequestedBy string
	// Record records the request for a host, before anything is applied. An error ends the registration. It may be nil.
	Record   func(ctx context.Context, host *v1alpha1.BareMetalHost) error
	Out, Err io.Writer

	file     string
	servers  []rackfile.Server
	problems []rackfile.Problem
	// live are the existing hosts of the namespace, by name.
	live map[string]*v1alpha1.BareMetalHost
}

// Read reads a file, or in if the name is "-". The error is that of the file, or that it has no server; problems in lines are reported by Run and Print.
func (r *Registration) Read(name string, in io.Reader) error {
	r.file = name
	if name == "-" {
		r.file = "standard input"
	} else {
		file, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it is read only
		if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			writef(r.Err, "%s: other users of this machine may read %s: run chmod 600 if it contains passwords\n", r.Program, terminal.Line(name))
		}
		in = file
	}
	var err error
	r.servers, r.problems, err = rackfile.Read(in, r.Namespace)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.file, err)
	}
	if len(r.servers)+len(r.problems) == 0 {
		return fmt.Errorf("%s contains no server: nothing was done", r.file)
	}
	return nil
}

// report prints the problems, line by line. It returns nil without problems.
func (r *Registration) report() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b rackfile.Problem) int { return a.Line - b.Line })
	for _, p := range r.problems {
		writef(r.Err, "%s: %s\n", terminal.Line(p.Position(r.file)), terminal.Line(p.Text))
	}
	writef(r.Err, "%s: nothing was applied: correct the problems above (%d), and run it again\n", r.Program, len(r.problems))
	return ErrReported
}

// Print prints the objects as YAML, and contacts no cluster. Without withPasswords it omits the Secrets.
func (r *Registration) Print(withPasswords bool) error {
	if err := r.report(); err != nil {
		return err
	}
	omitted := 0
	for _, s := range r.servers {
		objects := s.Objects()
		if s.Secret != nil && !withPasswords {
			objects = objects[1:]
			omitted++
		}
		for _, o := range objects {
			u, err := applied(o)
			if err != nil {
				return err
			}
			content, err := yaml.Marshal(u.Object)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(r.Out, "---\n"+string(content)); err != nil {
				return err
			}
		}
	}
	if omitted > 0 {
		writef(r.Err, "%s: %d Secrets were omitted: --with-passwords prints them\n", r.Program, omitted)
	}
	return nil
}

// applied returns the fields of an object that are applied: only those that are set, and no status.
func applied(o client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}

// writef writes to the user. It ignores errors, because they cannot be reported.
func writef(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

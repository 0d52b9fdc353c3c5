package registration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/rackfile"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
)

// fieldOwner is the owner of the fields in a file. The provider's fields (consumerRef, boot, quarantine) are never among them, so a file can neither set nor clear them. Its
// value never changes: two owners would share the fields, and a file could not remove them.
const fieldOwner = client.FieldOwner("bmcctl-inventory")

const (
	lineUntouched = iota
	lineUnsure    // a request got no response
	lineSecret    // only the Secret was applied
	lineDone
)

// What happens to a host.
const (
	hostCreated   = "created"
	hostChanged   = "changed"
	hostUnchanged = "unchanged"
)

// Run checks every line, and applies all lines or none.
func (r *Registration) Run(ctx context.Context) error {
	if err := r.checkNamespace(ctx); err != nil {
		return err
	}
	if err := r.checkLive(ctx); err != nil {
		return err
	}
	r.sign()
	verdicts, err := r.tryAll(ctx)
	if err != nil {
		return fmt.Errorf("nothing was applied: %w", err)
	}
	if err := r.report(); err != nil {
		return err
	}
	if r.Consent != nil && !r.DryRun {
		r.preview(verdicts)
		if err := r.Consent(); err != nil {
			return err
		}
	}
	if !r.DryRun {
		if err := r.record(ctx, verdicts); err != nil {
			return err
		}
		if err := r.applyAll(ctx); err != nil {
			return err
		}
	}
	if r.Consent == nil || r.DryRun {
		r.preview(verdicts)
	}
	r.summarize(verdicts)
	return nil
}

// checkNamespace checks that the namespace exists, because otherwise each line would fail for the same reason.
func (r *Registration) checkNamespace(ctx context.Context) error {
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Namespace}, &corev1.Namespace{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the namespace %q does not exist: run kubectl create namespace %[1]s, or use --namespace", r.Namespace)
	case apierrors.IsForbidden(err):
		return nil // users may have the right to write into a namespace and not to get it
	default:
		return err
	}
}

// checkLive compares the file with the existing hosts, in all namespaces if the user may list them: a MAC address and a BMC belong to one
// host of the cluster.
func (r *Registration) checkLive(ctx context.Context) error {
	var hosts v1alpha1.BareMetalHostList
	err := r.Client.List(ctx, &hosts)
	if apierrors.IsForbidden(err) {
		writef(r.Err, "%s: the user may not list the hosts of other namespaces: only those of %s are compared with the file\n", r.Program, terminal.Line(r.Namespace))
		err = r.Client.List(ctx, &hosts, client.InNamespace(r.Namespace))
	}
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return errors.New("the cluster does not have the kind BareMetalHost: install the provider first (clusterctl init --infrastructure capbm-io-baremetal), or use --context")
	}
	if err != nil {
		return err
	}
	r.live = map[string]*v1alpha1.BareMetalHost{}
	taken := map[string]*v1alpha1.BareMetalHost{}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if h.Namespace == r.Namespace {
			r.live[h.Name] = h
		}
		for _, id := range rackfile.Hardware(h) {
			taken[id.Key] = h
		}
	}
	for _, s := range r.servers {
		r.compare(s, taken)
	}
	return r.checkSecrets(ctx)
}

// compare compares a line with the existing hosts.
func (r *Registration) compare(s rackfile.Server, taken map[string]*v1alpha1.BareMetalHost) {
	for _, id := range rackfile.Hardware(s.Host) {
		other := taken[id.Key]
		if other != nil && (other.Namespace != s.Host.Namespace || other.Name != s.Host.Name) {
			r.problemf(s, id.Column, "%s belongs to the host %s/%s: correct it, or delete that host first", id.Text, other.Namespace, other.Name)
		}
	}
	live := r.live[s.Host.Name]
	switch {
	case live == nil:
	case !live.DeletionTimestamp.IsZero():
		r.problemf(s, "name", "the host %s is being deleted: wait until it is deleted", live.Name)
	case !r.ReplaceBMC && !rackfile.SameBMC(live.Spec.BMC.Address, s.Host.Spec.BMC.Address):
		r.problemf(s, "bmcAddress", "the host %s exists with the BMC %s: use another name for this server, or --replace-bmc if the BMC of that server has a new address",
			live.Name, live.Spec.BMC.Address)
	}
}

func (r *Registration) problemf(s rackfile.Server, column, format string, args ...any) {
	r.problems = append(r.problems, rackfile.Problem{Line: s.Line, Column: column, Text: fmt.Sprintf(format, args...)})
}

// checkSecrets checks that the Secrets that the file names exist, and have the label of BMC Secrets. It reads only their metadata.
func (r *Registration) checkSecrets(ctx context.Context) error {
	type answer struct {
		secret metav1.PartialObjectMetadata
		err    error
	}
	known := map[string]*answer{}
	for _, s := range r.servers {
		named := map[string]string{"caSecretName": s.Host.Spec.BMC.CASecretName}
		if s.Secret == nil {
			named["credentialsSecretName"] = s.Host.Spec.BMC.CredentialsSecretName
		}
		for column, name := range named {
			if name == "" {
				continue
			}
			a := known[name]
			if a == nil {
				a = &answer{}
				known[name] = a
				a.secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
				a.err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &a.secret)
			}
			_, labeled := a.secret.Labels[v1alpha1.BMCSecretLabel]
			switch {
			case apierrors.IsForbidden(a.err): // users may name a Secret that they may not get
			case apierrors.IsNotFound(a.err):
				r.problemf(s, column, "the Secret %s/%s does not exist: create it first", r.Namespace, name)
			case a.err != nil:
				return a.err
			case !labeled:
				r.problemf(s, column, "the Secret %[1]s/%[2]s is not labeled as a Secret of a BMC: run kubectl label secret %[2]s --namespace %[1]s %[3]s=",
					r.Namespace, name, v1alpha1.BMCSecretLabel)
			}
		}
	}
	return nil
}

// each calls do for every line, several at once, until one fails. It waits for the calls that have started.
func (r *Registration) each(ctx context.Context, do func(context.Context, int, rackfile.Server) error) error {
	goOn, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				if goOn.Err() != nil {
					continue
				}
				if err := do(ctx, i, r.servers[i]); err != nil {
					stop(err) // the first error counts
				}
			}
		})
	}
	for i := range r.servers {
		next <- i
	}
	close(next)
	wg.Wait()
	return context.Cause(goOn)
}

// tryAll applies every line as a dry run, so that the API server validates it, and returns the result for each host.
func (r *Registration) tryAll(ctx context.Context) ([]string, error) {
	verdicts := make([]string, len(r.servers))
	var mu sync.Mutex
	err := r.each(ctx, func(ctx context.Context, i int, s rackfile.Server) error {
		for _, o := range s.Objects() {
			result, err := r.apply(ctx, o, client.DryRunAll)
			if err == nil {
				if o == client.Object(s.Host) {
					verdicts[i], err = r.verdict(s, result)
				}
				if err != nil {
					return err
				}
				continue
			}
			text, isLines := refusal(err)
			if !isLines {
				return err
			}
			mu.Lock()
			r.problemf(s, "", "%s", text)
			mu.Unlock()
		}
		return nil
	})
	return verdicts, err
}

// verdict returns whether a host is created, changed or unchanged.
func (r *Registration) verdict(s rackfile.Server, result map[string]any) (string, error) {
	live := r.live[s.Host.Name]
	if live == nil {
		return hostCreated, nil
	}
	var after v1alpha1.BareMetalHost
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result, &after); err != nil {
		return "", err
	}
	if reflect.DeepEqual(after.Spec, live.Spec) && reflect.DeepEqual(after.Labels, live.Labels) {
		return hostUnchanged, nil
	}
	return hostChanged, nil
}

// refusal returns the API server's message about an object. It returns false for other errors, after which further requests make no sense.
func refusal(err error) (string, bool) {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsConflict(err) && errors.As(err, &status):
		var fields []string
		if details := status.Status().Details; details != nil {
			for _, cause := range details.Causes {
				fields = append(fields, cause.Field+" ("+cause.Message+")")
			}
		}
		return "another client has set fields of it to other values: " + strings.Join(fields, ", ") +
			": write the same values into the file, omit the column, or use --force-conflicts to overwrite them", true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), strings.Contains(err.Error(), "admission webhook") && !apierrors.IsInternalError(err):
		return err.Error(), true
	default:
		return "", false
	}
}

// apply applies an object, and returns the resulting object.
func (r *Registration) apply(ctx context.Context, o client.Object, options ...client.ApplyOption) (map[string]any, error) {
	u, err := applied(o)
	if err != nil {
		return nil, err
	}
	options = append(options, fieldOwner)
	if r.ForceConflicts {
		options = append(options, client.ForceOwnership)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...)
	return u.Object, err
}

// applyAll applies every line. After an error, it prints which lines were applied.
func (r *Registration) applyAll(ctx context.Context) error {
	outcomes := make([]int, len(r.servers))
	err := r.each(ctx, func(ctx context.Context, i int, s rackfile.Server) error {
		for _, o := range s.Objects() {
			if _, err := r.apply(ctx, o); err != nil {
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError {
					outcomes[i] = lineUnsure // it may have been written
				}
				return fmt.Errorf("line %d: %w", s.Line, err)
			}
			outcomes[i] = lineSecret
		}
		outcomes[i] = lineDone
		return nil
	})
	if err == nil {
		return nil
	}
	lines := map[int][]int{}
	for i, outcome := range outcomes {
		lines[outcome] = append(lines[outcome], r.servers[i].Line)
	}
	writef(r.Err, "%s: the registration failed: %s\n", r.Program, terminal.Line(err.Error()))
	for _, part := range []struct {
		outcome int
		text    string
	}{
		{lineDone, "applied: %s\n"},
		{lineSecret, "only the Secret was applied: %s\n"},
		{lineUnsure, "requested without a response, so it may be applied or not: %s\n"},
		{lineUntouched, "not applied: %s\n"},
	} {
		if len(lines[part.outcome]) > 0 {
			writef(r.Err, part.text, ranges(lines[part.outcome]))
		}
	}
	writef(r.Err, "%s: run it again with the same file to complete it\n", r.Program)
	return ErrReported
}

// ranges formats ascending line numbers: "lines 2-5, 7".
func ranges(lines []int) string {
	var out []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		text := strconv.Itoa(lines[i])
		if j > i {
			text += "-" + strconv.Itoa(lines[j])
		}
		out = append(out, text)
		i = j + 1
	}
	if len(lines) == 1 {
		return "line " + out[0]
	}
	return "lines " + strings.Join(out, ", ")
}

// preview prints which hosts are created and changed: before the user consents, or otherwise after it was done.
func (r *Registration) preview(verdicts []string) {
	for i, s := range r.servers {
		if verdicts[i] != hostUnchanged {
			writef(r.Out, "%s/%s %s\n", terminal.Line(s.Host.Namespace), terminal.Line(s.Host.Name), verdicts[i])
		}
	}
}

// summarize prints the number of changes, or of the changes that would be made.
func (r *Registration) summarize(verdicts []string) {
	counts, secrets := map[string]int{}, 0
	for i, s := range r.servers {
		counts[verdicts[i]]++
		if s.Secret != nil {
			secrets++
		}
	}
	how, written := "are registered", "written" // whether a Secret changed is not compared: it has a password
	if r.DryRun {
		how, written = "would be registered; nothing was applied", "would be written"
	}
	writef(r.Out, "%d hosts %s: %d created, %d changed, %d unchanged; %d Secrets %s\n",
		len(r.servers), how, counts[hostCreated], counts[hostChanged], counts[hostUnchanged], secrets, written)
}

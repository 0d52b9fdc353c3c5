package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// BootstrapData gives the bootstrap data to the first who asks for a file of the seed with the token. Before that everything is read from the API server; from
// then on the boot alone is, which is void before its claim ends, and the Secret only for the files that it is in.
func (b *Booter) BootstrapData(ctx context.Context, name, token, file string, from netip.Addr) (seed.Data, error) {
	s := shown{name, token, forSeed, from}
	if data, ok, err := b.seedAgain(ctx, s, file); ok || err != nil {
		return data, err
	}
	var data seed.Data
	var first bool
	around := func(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
		if first = boot.Spec.DataServedAt == nil; first {
			return b.aroundLive(ctx, boot)
		}
		return b.around(ctx, boot)
	}
	a, err := b.withToken(ctx, s, around, func(a attempt) error {
		if lifecycle.StateOf(a.view) != lifecycle.StateBooting || b.past(a) {
			return refused("the boot of %s is over", name)
		}
		if _, err := b.admit(ctx, a, from, true); err != nil {
			return err
		}
		if err := bind(&a.boot.Spec.DataAddress, from, "bootstrap data"); err != nil {
			return b.failAttempt(ctx, a, err)
		}
		bootstrap, err := b.partOf(ctx, a.host, a.consumer, first || seed.HasUserData(file))
		if err != nil {
			b.failed(a.boot, reasonOf(err), err)
			return err
		}
		if first {
			now := metav1.NewTime(b.Clock.Now())
			a.boot.Spec.DataServedAt = &now
		}
		data = b.seedData(a, bootstrap)
		return nil
	})
	if err != nil {
		return seed.Data{}, err
	}
	if first {
		b.tellSeeded(a, from)
	}
	b.saw(a.boot, v1alpha1.StageData, from, "")
	return data, nil
}

// seedAgain answers from the cache a request for a file without bootstrap data, of the client that the bootstrap data was served to. ok is false where
// the API server has to be asked.
func (b *Booter) seedAgain(ctx context.Context, s shown, file string) (data seed.Data, ok bool, err error) {
	namespace, name, _ := strings.Cut(s.host, "/")
	boot, err := b.bootOf(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || boot == nil || seed.HasUserData(file) || boot.Spec.DataServedAt == nil || boot.Spec.DataAddress != s.from.String() ||
		!b.opens(s.token, s.purpose, boot) {
		return seed.Data{}, false, err
	}
	a, err := b.around(ctx, boot)
	if err != nil || lifecycle.StateOf(a.view) != lifecycle.StateBooting || b.past(a) {
		return seed.Data{}, false, client.IgnoreNotFound(err)
	}
	part, err := b.partOf(ctx, a.host, a.consumer, false)
	if err != nil {
		return seed.Data{}, false, err
	}
	return b.seedData(a, part), true, nil
}

// seedData is what a host is told about itself, with its bootstrap data.
func (b *Booter) seedData(a attempt, given bootstrap) seed.Data {
	machine, name, report := a.host.Spec.ConsumerRef.Name, a.host.Namespace+"/"+a.host.Name, b.token(forReport, a.boot)
	data := seed.Data{
		InstanceID: fmt.Sprintf("%s-%d", a.boot.Spec.ClaimID, a.boot.Spec.Number),
		Hostname:   machine, ProviderID: inventory.ProviderID(a.host.Namespace, a.host.Name, machine),
		FailureDomain: a.host.Spec.FailureDomain, Labels: a.host.Labels, Network: given.network, UserData: given.data, Format: given.format,
		ReportPath: pxe.ReportPath(name, report, pxe.Up),
	}
	if a.consumer.BareMetalMachine.Spec.Boot.ReportBootstrap {
		data.SucceededPath, data.FailedPath = pxe.ReportPath(name, report, pxe.Succeeded), pxe.ReportPath(name, report, pxe.Failed)
	}
	return data
}

// bootstrap is what a host's operating system is given.
type bootstrap struct {
	data    []byte
	format  seed.Format
	network *seed.Network
}

// invalidDataError is why bootstrap data that is there cannot be served to any host.
type invalidDataError struct{ error }

func (e invalidDataError) Unwrap() error { return e.error }

// reasonOf is the reason of a problem with the bootstrap data.
func reasonOf(err error) string {
	if errors.As(err, new(invalidDataError)) {
		return v1alpha1.ReasonBootstrapDataInvalid
	}
	return v1alpha1.ReasonBootstrapDataUnavailable
}

// partOf is bootstrap, or what of it is known without the Secret.
func (b *Booter) partOf(ctx context.Context, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer, whole bool) (bootstrap, error) {
	if whole {
		return b.bootstrap(ctx, host, consumer)
	}
	network, err := Network(host.Spec.Network)
	return bootstrap{network: network}, err
}

// bootstrap reads the bootstrap Secret, and the host's network. It is asked when the script is given out as well as when the seed is: the
// command line depends on the format, and a boot that cannot be finished is not begun.
func (b *Booter) bootstrap(ctx context.Context, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer) (bootstrap, error) {
	network, err := Network(host.Spec.Network)
	if err != nil {
		return bootstrap{}, err
	}
	name := consumer.BootstrapSecretName()
	if name == "" {
		return bootstrap{}, errors.New("the Machine names no bootstrap Secret")
	}
	var secret corev1.Secret
	if err := b.APIReader.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: name}, &secret); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w. Let the boot server read the Secrets of the namespace: kubectl create rolebinding capbm-boot-data -n %s "+
				"--clusterrole=capbm-system-boot-data --serviceaccount=%s:capbm-boot", err, host.Namespace, b.Namespace)
		}
		return bootstrap{}, fmt.Errorf("read the bootstrap Secret: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return bootstrap{}, fmt.Errorf("bootstrap Secret %q has no key \"value\"", name)
	}
	format := cmp.Or(seed.Format(secret.Data["format"]), seed.CloudConfig)
	if !slices.Contains(seed.Formats(), format) {
		return bootstrap{}, invalidDataError{fmt.Errorf("bootstrap Secret %q has the format %.50q, which no host can be given: set the format of the bootstrap config to one of %q",
			name, string(format), seed.Formats())}
	}
	if err := seed.Check(format, secret.Data["value"]); err != nil {
		return bootstrap{}, invalidDataError{fmt.Errorf("bootstrap Secret %q: %w", name, err)}
	}
	if _, err := seed.CommandLine(format, network, ""); err != nil {
		return bootstrap{}, err
	}
	return bootstrap{data: secret.Data["value"], format: format, network: network}, nil
}

// Report notes what the running system says of itself. A report that is made again is no error: its answer may have been lost.
//
// It is taken from any address. Between its seed and its report a system may have given itself another address, and a report opens
// nothing: whoever can make one has read the seed, or the files of the system.
func (b *Booter) Report(ctx context.Context, name, token string, outcome pxe.Outcome, from netip.Addr) error {
	a, err := b.withToken(ctx, shown{name, token, forReport, from}, b.around, func(a attempt) error {
		boot := &a.boot.Spec
		if a.view.CurrentBoot() == nil || boot.Failure != nil || boot.DataServedAt == nil || !a.view.Consumer.Found || a.view.Consumer.Deleting ||
			boot.ReportedAt == nil && b.past(a) {
			return refused("the boot of %s is over", name)
		}
		if boot.ReportedAt == nil {
			// Whatever is reported, the system is up. That is a fact, also in maintenance, and it is recorded once.
			now := metav1.NewTime(b.Clock.Now())
			boot.ReportedAt = &now
		}
		if boot.ReportAddress == "" { // the Node may have shown earlier that the system is up
			boot.ReportAddress = from.String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.saw(a.boot, v1alpha1.StageReportedIn, from, "")
	switch outcome {
	case pxe.Up:
	case pxe.Succeeded:
		b.saw(a.boot, v1alpha1.StageBootstrapSucceeded, from, "")
	case pxe.Failed:
		b.saw(a.boot, v1alpha1.StageBootstrapFailed, from, "")
	}
	return nil
}

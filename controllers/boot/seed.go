package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Seed gives the bootstrap data to the first who asks for a file of the seed with the token. From then on the Secret is read only for the files
// that it is in.
func (b *Booter) Seed(ctx context.Context, name, token, file string, from netip.Addr) (seed.Data, error) {
	var data seed.Data
	var first bool
	host, err := b.withToken(ctx, shown{name, token, forSeed, from}, func(a attempt) error {
		host, consumer := a.host, a.consumer
		if lifecycle.StateOf(a.view) != lifecycle.StateBooting || b.past(a) {
			return refused("the boot attempt of %s is over", name)
		}
		if err := bind(&host.Spec.Boot.SeedAddress, from, "bootstrap data"); err != nil {
			return b.failAttempt(ctx, host, err)
		}
		first = host.Spec.Boot.SeededAt == nil
		bootstrap, err := b.partOf(ctx, host, consumer, first || seed.HasUserData(file))
		if err != nil {
			b.failed(host, v1alpha1.ReasonBootstrapDataUnavailable, err)
			return err
		}
		if first {
			now := metav1.NewTime(b.Clock.Now())
			host.Spec.Boot.SeededAt = &now
		}
		report := b.token(forReport, host, consumer)
		data = seedData(host, bootstrap)
		data.ReportPath = pxe.ReportPath(name, report, pxe.Up)
		if consumer.BareMetalMachine.Spec.Boot.ReportBootstrap {
			data.SucceededPath, data.FailedPath = pxe.ReportPath(name, report, pxe.Succeeded), pxe.ReportPath(name, report, pxe.Failed)
		}
		return nil
	})
	if err != nil {
		return seed.Data{}, err
	}
	if first {
		b.tellSeeded(host, from)
	}
	b.saw(host, v1alpha1.StageSeed, from, "")
	return data, nil
}

// seedData is what a host is told about itself, with its bootstrap data.
func seedData(host *v1alpha1.BareMetalHost, b bootstrap) seed.Data {
	machine := host.Spec.ConsumerRef.Name
	return seed.Data{
		InstanceID: fmt.Sprintf("%s-%d-%d", host.UID, host.Spec.Boot.StartedAt.Unix(), host.Spec.Boot.Attempt),
		Hostname:   machine, ProviderID: inventory.ProviderID(host.Namespace, host.Name, machine),
		FailureDomain: host.Spec.FailureDomain, Labels: host.Labels, Network: b.network, UserData: b.data, Format: b.format,
	}
}

// bootstrap is what a host's operating system is given.
type bootstrap struct {
	data    []byte
	format  seed.Format
	network *seed.Network
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
		return bootstrap{}, fmt.Errorf("read the bootstrap Secret: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return bootstrap{}, fmt.Errorf("bootstrap Secret %q has no key \"value\"", name)
	}
	format := cmp.Or(seed.Format(secret.Data["format"]), seed.CloudConfig)
	if !slices.Contains(seed.Formats(), format) {
		return bootstrap{}, fmt.Errorf("bootstrap Secret %q has the format %.50q, which no host can be given: set the format of the bootstrap config to one of %q",
			name, string(format), seed.Formats())
	}
	if err := seed.Check(format, secret.Data["value"]); err != nil {
		return bootstrap{}, fmt.Errorf("bootstrap Secret %q: %w", name, err)
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
	host, err := b.withToken(ctx, shown{name, token, forReport, from}, func(a attempt) error {
		boot := a.host.Spec.Boot
		if boot.Failure != nil || boot.SeededAt == nil || a.view.Consumer.Deleting || boot.ReportedAt == nil && b.past(a) {
			return refused("the boot attempt of %s is over", name)
		}
		if boot.ReportedAt == nil {
			// Whatever is reported, the system is up. That is a fact, also in maintenance, and it is told once.
			now := metav1.NewTime(b.Clock.Now())
			boot.ReportedAt = &now
		}
		if boot.ReportAddress == "" { // the Node may have told earlier that the system is up
			boot.ReportAddress = from.String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.saw(host, v1alpha1.StageReportedIn, from, "")
	switch outcome {
	case pxe.Up:
	case pxe.Succeeded:
		b.saw(host, v1alpha1.StageBootstrapSucceeded, from, "")
	case pxe.Failed:
		b.saw(host, v1alpha1.StageBootstrapFailed, from, "")
	}
	return nil
}

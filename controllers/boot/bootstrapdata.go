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
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// BootstrapData returns the bootstrap data to the first client that asks for a file of the seed with the token. For that first request everything is read from
// the API server. Later requests read only the boot, which is voided before its claim ends, and the Secret for the files that contain it.
func (b *Booter) BootstrapData(ctx context.Context, name, token, file string, from netip.Addr) (seed.Data, error) {
	s := presentedToken{name, token, forSeed, from}
	if data, ok, err := b.cachedSeed(ctx, s, file); ok || err != nil {
		return data, err
	}
	var data seed.Data
	var first bool
	read := func(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
		if first = boot.Spec.DataServedTime == nil; first {
			return b.liveAttemptOf(ctx, boot)
		}
		return b.attemptOf(ctx, boot)
	}
	a, err := b.withToken(ctx, s, read, func(a attempt) error {
		if lifecycle.StateOf(a.view) != lifecycle.StateBooting || b.deadlinePassed(a) {
			return refused("the boot of %s is over", name)
		}
		if _, err := b.admit(ctx, a, "", from, true); err != nil {
			return err
		}
		if err := bind(&a.boot.Spec.DataAddress, from, "bootstrap data"); err != nil {
			return b.failAttempt(ctx, a, err)
		}
		bootstrap, err := b.bootstrapPart(ctx, a, first || seed.HasUserData(file))
		if err != nil {
			b.recordProblem(a.boot, bootstrapReason(err), err)
			return err
		}
		if first {
			now := metav1.NewTime(b.Clock.Now())
			a.boot.Spec.DataServedTime = &now
		}
		data = b.seedData(a, bootstrap)
		return nil
	})
	if err != nil {
		return seed.Data{}, err
	}
	if first {
		b.recordServedEvent(a, from)
	}
	b.recordStage(a.boot, v1alpha1.StageData, from, "")
	return data, nil
}

// cachedSeed answers from the cache a request for a file without bootstrap data, of the client that got the bootstrap data. ok is false if the API server has
// to be read.
func (b *Booter) cachedSeed(ctx context.Context, s presentedToken, file string) (data seed.Data, ok bool, err error) {
	namespace, name, _ := strings.Cut(s.host, "/")
	boot, err := b.bootOf(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || boot == nil || seed.HasUserData(file) || boot.Spec.DataServedTime == nil || boot.Spec.DataAddress != s.from.String() ||
		!b.opens(s.token, s.purpose, boot) {
		return seed.Data{}, false, err
	}
	a, err := b.attemptOf(ctx, boot)
	if err != nil || lifecycle.StateOf(a.view) != lifecycle.StateBooting || b.deadlinePassed(a) {
		return seed.Data{}, false, client.IgnoreNotFound(err)
	}
	part, err := b.bootstrapPart(ctx, a, false)
	if err != nil {
		return seed.Data{}, false, err
	}
	return b.seedData(a, part), true, nil
}

// seedData returns the facts about a host for its operating system, with its bootstrap data.
func (b *Booter) seedData(a attempt, given bootstrapData) seed.Data {
	machine, name, report := a.host.Spec.ConsumerRef.Name, a.host.Namespace+"/"+a.host.Name, b.token(forReport, a.boot)
	data := seed.Data{
		InstanceID: fmt.Sprintf("%s-%d", a.boot.Spec.ClaimID, a.boot.Spec.Number),
		Hostname:   machine, ProviderID: inventory.ProviderID(a.host.Namespace, a.host.Name, machine),
		FailureDomain: a.host.Spec.FailureDomain, Labels: a.host.Labels, Network: given.network, UserData: given.data, Format: given.format,
		ReportPath: pxe.ReportPath(name, report, pxe.Up),
	}
	if a.consumer.BareMetalMachine.Spec.ReportsBootstrap() {
		data.SucceededPath, data.FailedPath = pxe.ReportPath(name, report, pxe.Succeeded), pxe.ReportPath(name, report, pxe.Failed)
	}
	return data
}

// bootstrapData is the input of a host's operating system.
type bootstrapData struct {
	data    []byte
	format  seed.Format
	network *seed.Network
}

// invalidDataError is the reason why existing bootstrap data cannot be served to any host.
type invalidDataError struct{ error }

func (e invalidDataError) Unwrap() error { return e.error }

// bootstrapReason returns the condition reason for a problem with the bootstrap data.
func bootstrapReason(err error) string {
	if errors.As(err, new(invalidDataError)) {
		return v1alpha1.ReasonBootstrapDataInvalid
	}
	return v1alpha1.ReasonBootstrapDataUnavailable
}

// bootstrapPart is readBootstrapData, or with whole false only the part that does not need the Secret.
func (b *Booter) bootstrapPart(ctx context.Context, a attempt, whole bool) (bootstrapData, error) {
	if whole {
		return b.readBootstrapData(ctx, a)
	}
	network, err := Network(a.host.Spec.Network)
	return bootstrapData{network: network}, err
}

// readBootstrapData reads the bootstrap Secret, and the host's network. It is called before the script is served as well as before the seed is: the command line
// depends on the format, and a boot that cannot be finished is not started.
func (b *Booter) readBootstrapData(ctx context.Context, a attempt) (bootstrapData, error) {
	network, err := Network(a.host.Spec.Network)
	if err != nil {
		return bootstrapData{}, err
	}
	name, namespace := a.consumer.BootstrapSecretName(), a.host.Namespace
	if name == "" {
		return bootstrapData{}, errors.New("the Machine names no bootstrap Secret")
	}
	var secret corev1.Secret
	if err := b.readData(ctx, namespace, name, &secret); err != nil {
		return bootstrapData{}, fmt.Errorf("read the bootstrap Secret: %w", err)
	}
	if err := checkOrigin(a.consumer.Machine, &secret); err != nil {
		return bootstrapData{}, invalidDataError{err}
	}
	if err := b.checkConfig(ctx, a.consumer.Machine, &secret); err != nil { // the config may become the Machine's
		return bootstrapData{}, err
	}
	if len(secret.Data["value"]) == 0 {
		return bootstrapData{}, fmt.Errorf("bootstrap Secret %q has no key \"value\"", name)
	}
	format := cmp.Or(seed.Format(secret.Data["format"]), seed.CloudConfig)
	if !slices.Contains(seed.Formats(), format) {
		return bootstrapData{}, invalidDataError{fmt.Errorf("bootstrap Secret %q has the format %.50q, which no host can be given: set the format of the bootstrap config to one of %q",
			name, string(format), seed.Formats())}
	}
	if err := seed.Check(format, secret.Data["value"]); err != nil {
		return bootstrapData{}, invalidDataError{fmt.Errorf("bootstrap Secret %q: %w", name, err)}
	}
	bootstrap := bootstrapData{data: secret.Data["value"], format: format, network: network}
	return bootstrap, b.checkDelivery(a, bootstrap)
}

// checkDelivery returns why an operating system cannot be given its bootstrap data: by the kernel command line of a network boot, or by the partition on the disk
// of an image. The agent would find the latter only after it has destroyed the content of the disk.
func (b *Booter) checkDelivery(a attempt, bootstrap bootstrapData) error {
	switch image := a.image(); {
	case image == nil:
		_, err := seed.CommandLine(bootstrap.format, bootstrap.network, "")
		return err
	case image.DataSource == v1alpha1.DataSourceNone:
		return nil
	default:
		if _, err := seed.Partition(b.seedData(a, bootstrap), agent.DataSource(image.DataSource), "", 512); err != nil {
			return invalidDataError{fmt.Errorf("spec.image.dataSource of the BareMetalMachine is %s: %w", image.DataSource, err)}
		}
		return nil
	}
}

// readData reads a Secret or a bootstrap config from the API server, by the role capbm-system-boot-data. The error names the command that binds the role if it is missing.
func (b *Booter) readData(ctx context.Context, namespace, name string, into client.Object) error {
	err := b.APIReader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w. Let the boot server read the bootstrap data of the namespace: "+
			"kubectl create rolebinding capbm-boot-data -n %s --clusterrole=capbm-system-boot-data --serviceaccount=%s:capbm-boot", err, namespace, b.Namespace)
	}
	return err
}

// Report records the report of a running system. A repeated report is no error: the answer to the first may have been lost.
//
// It accepts any source address. A system may change its address between its seed and its report. A report gives access to nothing, and its sender has read the
// seed or the files of the system.
func (b *Booter) Report(ctx context.Context, name, token string, outcome pxe.Outcome, from netip.Addr) error {
	a, err := b.withToken(ctx, presentedToken{name, token, forReport, from}, b.attemptOf, func(a attempt) error {
		boot := &a.boot.Spec
		if a.view.CurrentBoot() == nil || boot.Failure != nil || boot.DataServedTime == nil || !a.view.Consumer.Found || a.view.Consumer.Deleting ||
			boot.ReportedTime == nil && b.deadlinePassed(a) {
			return refused("the boot of %s is over", name)
		}
		if boot.ReportedTime == nil {
			// Any report proves that the system is up. That holds in maintenance too, and is recorded once.
			now := metav1.NewTime(b.Clock.Now())
			boot.ReportedTime = &now
		}
		if boot.ReportAddress == "" { // the Node may have proved earlier that the system is up
			boot.ReportAddress = from.String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.recordStage(a.boot, v1alpha1.StageReportedIn, from, "")
	switch outcome {
	case pxe.Up:
	case pxe.Succeeded:
		b.recordStage(a.boot, v1alpha1.StageBootstrapSucceeded, from, "")
	case pxe.Failed:
		b.recordStage(a.boot, v1alpha1.StageBootstrapFailed, from, "")
	}
	return nil
}

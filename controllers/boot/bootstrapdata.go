package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

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

// dataReader reads what the role capbm-system-boot-data permits in the namespaces of clusters: Secrets and bootstrap configs.
type dataReader struct {
	apiReader client.Reader
	namespace string // of the provider
}

// read reads a Secret or a bootstrap config from the API server, by the role capbm-system-boot-data. The error names the command that binds the role if it is missing.
func (r dataReader) read(ctx context.Context, namespace, name string, into client.Object) error {
	err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w. Let the boot server read the bootstrap data of the namespace: "+
			"kubectl create rolebinding capbm-boot-data -n %s --clusterrole=capbm-system-boot-data --serviceaccount=%s:capbm-boot", err, namespace, r.namespace)
	}
	return err
}

// bootstrapReader reads the bootstrap data of hosts, and checks that it can be delivered to their operating systems.
type bootstrapReader struct {
	data dataReader
	keys tokenKeys
}

// bootstrapForScript reads what a boot needs, so that one that cannot be finished is not started. The agent that erases disks needs no bootstrap data, and
// the Secret of a machine that is being deleted may be gone.
func (r *bootstrapReader) bootstrapForScript(ctx context.Context, a attempt) (bootstrapData, error) {
	return r.bootstrapPart(ctx, a, a.boot.Spec.Purpose == v1alpha1.PurposeProvision)
}

// bootstrapPart is readBootstrapData, or with whole false only the part that does not need the Secret.
func (r *bootstrapReader) bootstrapPart(ctx context.Context, a attempt, whole bool) (bootstrapData, error) {
	if whole {
		return r.readBootstrapData(ctx, a)
	}
	network, err := Network(a.host.Spec.Network)
	return bootstrapData{network: network}, err
}

// bootstrapForSeed reads what a file of the seed needs. The first request needs a Machine with bootstrap data whatever its file: it is the one that the data is served for.
func (r *bootstrapReader) bootstrapForSeed(ctx context.Context, a attempt, first bool, file string) (bootstrapData, error) {
	if err := requireMachine(a); first && err != nil {
		return bootstrapData{}, err
	}
	return r.bootstrapPart(ctx, a, seed.HasUserData(file))
}

// requireMachine refuses an attempt whose Machine is gone, although its BareMetalMachine is not, or has no bootstrap data.
func requireMachine(a attempt) error {
	if a.consumer.BootstrapSecretName() == "" {
		return refused("the Machine of %s/%s is gone, or names no bootstrap Secret", a.host.Namespace, a.host.Name)
	}
	return nil
}

// readBootstrapData reads the bootstrap Secret, and the host's network. It is called before the script is served as well as before the seed is: the command line
// depends on the format, and a boot that cannot be finished is not started.
func (r *bootstrapReader) readBootstrapData(ctx context.Context, a attempt) (bootstrapData, error) {
	network, err := Network(a.host.Spec.Network)
	if err != nil {
		return bootstrapData{}, err
	}
	name, namespace := a.consumer.BootstrapSecretName(), a.host.Namespace
	if name == "" {
		return bootstrapData{}, errors.New("the Machine names no bootstrap Secret")
	}
	var secret corev1.Secret
	if err := r.data.read(ctx, namespace, name, &secret); err != nil {
		return bootstrapData{}, fmt.Errorf("read the bootstrap Secret: %w", err)
	}
	if err := checkOrigin(a.consumer.Machine, &secret); err != nil {
		return bootstrapData{}, invalidDataError{err}
	}
	if err := r.checkConfig(ctx, a.consumer.Machine, &secret); err != nil { // the config may become the Machine's
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
	return bootstrap, r.checkDelivery(a, bootstrap)
}

// checkDelivery returns why an operating system cannot be given its bootstrap data: by the kernel command line of a network boot, or by the partition on the disk
// of an image. The agent would find the latter only after it has destroyed the content of the disk.
func (r *bootstrapReader) checkDelivery(a attempt, bootstrap bootstrapData) error {
	switch image := a.image(); {
	case image == nil:
		_, err := seed.CommandLine(bootstrap.format, bootstrap.network, "")
		return err
	case image.DataSource == wire.DataSourceNone:
		return nil
	default:
		if _, err := seed.Partition(r.seedData(a, bootstrap), image.DataSource, "", 512); err != nil {
			return invalidDataError{fmt.Errorf("spec.image.dataSource of the BareMetalMachine is %s: %w", image.DataSource, err)}
		}
		return nil
	}
}

// seedData returns the facts about a host for its operating system, with its bootstrap data.
func (r *bootstrapReader) seedData(a attempt, given bootstrapData) seed.Data {
	machine, name, report := a.host.Spec.ConsumerRef.Name, a.host.Namespace+"/"+a.host.Name, r.keys.token(forReport, a.boot)
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

package host

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// endpointReader reads from Secrets how the BMCs of hosts are reached.
type endpointReader struct {
	client       client.Client
	apiReader    client.Reader // reads Secrets: the cache contains only their metadata
	metadata     client.Reader // the cache
	observations *observations
}

// reconcileEndpoint updates the endpoint of the host's BMC. It reads the Secrets only after they changed: the cache contains only their metadata. It
// returns a problem that the user has to fix.
func (r *endpointReader) reconcileEndpoint(ctx context.Context, host *v1alpha1.BareMetalHost) (*lifecycle.BMCProblem, error) {
	spec := host.Spec.BMC
	versions := []string{spec.Address, strconv.FormatBool(spec.InsecureSkipTLSVerify)}
	names := []string{spec.CredentialsSecretName}
	if spec.CASecretName != "" {
		names = append(names, spec.CASecretName)
	}
	for _, name := range names {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.metadata.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) {
			return credentialsProblem("Secret %q does not exist", name), nil
		}
		if err != nil {
			return nil, err
		}
		if problem := checkSecret(host, secret); problem != nil {
			return problem, nil
		}
		if err := controllers.LabelForMove(ctx, r.client, secret); err != nil {
			return nil, err
		}
		versions = append(versions, string(secret.UID)+"/"+secret.ResourceVersion)
	}
	key, version := client.ObjectKeyFromObject(host), strings.Join(versions, " ")
	if r.observations.get(key).secretVersions == version {
		return nil, nil //nolint:nilnil // unchanged, and no problem
	}
	endpoint, problem, err := r.readEndpoint(ctx, host)
	if problem != nil || err != nil {
		return problem, err
	}
	r.observations.update(key, func(h *hostObservation) { h.setEndpoint(endpoint, version) })
	return nil, nil //nolint:nilnil // no problem
}

// checkSecret returns why a Secret must not be read for a host, or nil. A user who may write hosts may lack the right to read the namespace's Secrets,
// and the provider sends the credentials to the address that the host names.
func checkSecret(host *v1alpha1.BareMetalHost, secret client.Object) *lifecycle.BMCProblem {
	if _, ok := secret.GetLabels()[v1alpha1.BMCSecretLabel]; !ok {
		return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsNotLabeled, Message: fmt.Sprintf(
			"Secret %[1]q is not labeled as a BMC Secret, so it is not read. If it belongs to a BMC: kubectl label secret %[1]s --namespace %[2]s %[3]s=",
			secret.GetName(), secret.GetNamespace(), v1alpha1.BMCSecretLabel)}
	}
	listed := secret.GetAnnotations()[v1alpha1.BMCHostsAnnotation]
	if listed == "" || secret.GetName() != host.Spec.BMC.CredentialsSecretName {
		return nil
	}
	address, err := url.Parse(host.Spec.BMC.Address)
	if err != nil {
		return credentialsProblem("spec.bmc.address is not a URL: %v", err)
	}
	for name := range strings.SplitSeq(listed, ",") {
		if strings.EqualFold(strings.TrimSpace(name), address.Hostname()) {
			return nil
		}
	}
	return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsNotForBMC, Message: fmt.Sprintf(
		"The annotation %s of Secret %q does not list %s, so the credentials are not sent to that address: correct spec.bmc.address, or add the address to the annotation",
		v1alpha1.BMCHostsAnnotation, secret.GetName(), address.Hostname())}
}

func (r *endpointReader) readEndpoint(ctx context.Context, host *v1alpha1.BareMetalHost) (*bmc.Endpoint, *lifecycle.BMCProblem, error) {
	spec := host.Spec.BMC
	address, err := url.Parse(spec.Address)
	if err != nil {
		return nil, credentialsProblem("spec.bmc.address is not a URL: %v", err), nil
	}
	endpoint := &bmc.Endpoint{URL: address, InsecureSkipVerify: spec.InsecureSkipTLSVerify}
	secrets := map[string]*corev1.Secret{} // by name: each is read once
	read := func(name, key string) ([]byte, *lifecycle.BMCProblem, error) {
		if secrets[name] == nil {
			var secret corev1.Secret
			err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: name}, &secret)
			if apierrors.IsNotFound(err) {
				return nil, credentialsProblem("Secret %q does not exist", name), nil
			}
			if err != nil {
				return nil, nil, err
			}
			if problem := checkSecret(host, &secret); problem != nil {
				return nil, problem, nil // the cache was stale
			}
			secrets[name] = &secret
		}
		if len(secrets[name].Data[key]) == 0 {
			return nil, credentialsProblem("Secret %q has no key %q", name, key), nil
		}
		return secrets[name].Data[key], nil, nil
	}
	for _, want := range []struct {
		secret, key string
		to          func([]byte)
	}{
		{spec.CredentialsSecretName, "username", func(b []byte) { endpoint.Username = string(b) }},
		{spec.CredentialsSecretName, "password", func(b []byte) { endpoint.Password = string(b) }},
		{spec.CASecretName, "ca.crt", func(b []byte) { endpoint.CA = b }},
	} {
		if want.secret == "" {
			continue
		}
		value, problem, err := read(want.secret, want.key)
		if problem != nil || err != nil {
			return nil, problem, err
		}
		want.to(value)
	}
	return endpoint, nil, nil
}

// sameEndpoint is true if both endpoints have the same address, credentials and TLS settings.
func sameEndpoint(a, b *bmc.Endpoint) bool {
	return a.URL.String() == b.URL.String() && a.Username == b.Username && a.Password == b.Password && bytes.Equal(a.CA, b.CA) &&
		a.InsecureSkipVerify == b.InsecureSkipVerify
}

// credentialsProblem returns a problem without a retry time: the change that fixes it enqueues the host.
func credentialsProblem(format string, args ...any) *lifecycle.BMCProblem {
	return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsMissing, Message: fmt.Sprintf(format, args...)}
}

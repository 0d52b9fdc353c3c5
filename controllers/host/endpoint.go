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

// reconcileEndpoint learns how to reach the host's BMC. The Secrets are read only when they changed: the cache holds no
// Secret, just the metadata of all. It returns what the user has to mend.
func (r *Reconciler) reconcileEndpoint(ctx context.Context, host *v1alpha1.BareMetalHost) (*lifecycle.BMCProblem, error) {
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
			return credentialsProblem("Secret %q is not there", name), nil
		}
		if err != nil {
			return nil, err
		}
		if problem := checkSecret(host, secret); problem != nil {
			return problem, nil
		}
		if err := controllers.LabelForMove(ctx, r.Client, secret); err != nil {
			return nil, err
		}
		versions = append(versions, string(secret.UID)+"/"+secret.ResourceVersion)
	}
	key, version := client.ObjectKeyFromObject(host), strings.Join(versions, " ")
	if r.observations.get(key).secretVersions == version {
		return nil, nil //nolint:nilnil // nothing has changed, nothing is wrong
	}
	endpoint, problem, err := r.readEndpoint(ctx, host)
	if problem != nil || err != nil {
		return problem, err
	}
	r.observations.update(key, func(h *hostObservation) { h.setEndpoint(endpoint, version) })
	return nil, nil //nolint:nilnil // nothing is wrong
}

// checkSecret returns why a Secret must not be read for a host; nil if it may be read. A user who may write hosts may not be allowed to read the Secrets of the namespace,
// and the provider sends the credentials to the address that the host names.
func checkSecret(host *v1alpha1.BareMetalHost, secret client.Object) *lifecycle.BMCProblem {
	if _, ok := secret.GetLabels()[v1alpha1.BMCSecretLabel]; !ok {
		return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsNotLabeled, Message: fmt.Sprintf(
			"Secret %[1]q is not labeled as a Secret of a BMC, so it is not read. If it is one: kubectl label secret %[1]s --namespace %[2]s %[3]s=",
			secret.GetName(), secret.GetNamespace(), v1alpha1.BMCSecretLabel)}
	}
	listed := secret.GetAnnotations()[v1alpha1.BMCHostsAnnotation]
	if listed == "" || secret.GetName() != host.Spec.BMC.CredentialsSecretName {
		return nil
	}
	address, err := url.Parse(host.Spec.BMC.Address)
	if err != nil {
		return credentialsProblem("spec.bmc.address is no URL: %v", err)
	}
	for name := range strings.SplitSeq(listed, ",") {
		if strings.EqualFold(strings.TrimSpace(name), address.Hostname()) {
			return nil
		}
	}
	return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsNotForBMC, Message: fmt.Sprintf(
		"The annotation %s of Secret %q does not list %s, so the credentials are not sent there: correct spec.bmc.address, or add it to the annotation",
		v1alpha1.BMCHostsAnnotation, secret.GetName(), address.Hostname())}
}

func (r *Reconciler) readEndpoint(ctx context.Context, host *v1alpha1.BareMetalHost) (*bmc.Endpoint, *lifecycle.BMCProblem, error) {
	spec := host.Spec.BMC
	address, err := url.Parse(spec.Address)
	if err != nil {
		return nil, credentialsProblem("spec.bmc.address is no URL: %v", err), nil
	}
	endpoint := &bmc.Endpoint{URL: address, InsecureSkipVerify: spec.InsecureSkipTLSVerify}
	secrets := map[string]*corev1.Secret{} // each is read once
	read := func(name, key string) ([]byte, *lifecycle.BMCProblem, error) {
		if secrets[name] == nil {
			var secret corev1.Secret
			err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: name}, &secret)
			if apierrors.IsNotFound(err) {
				return nil, credentialsProblem("Secret %q is not there", name), nil
			}
			if err != nil {
				return nil, nil, err
			}
			if problem := checkSecret(host, &secret); problem != nil {
				return nil, problem, nil // the cache is behind
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

// sameEndpoint is true when both endpoints reach the same BMC with the same credentials.
func sameEndpoint(a, b *bmc.Endpoint) bool {
	return a.URL.String() == b.URL.String() && a.Username == b.Username && a.Password == b.Password && bytes.Equal(a.CA, b.CA) &&
		a.InsecureSkipVerify == b.InsecureSkipVerify
}

// credentialsProblem is a problem that a change of an object ends, which brings the host back.
func credentialsProblem(format string, args ...any) *lifecycle.BMCProblem {
	return &lifecycle.BMCProblem{Reason: v1alpha1.ReasonCredentialsMissing, Message: fmt.Sprintf(format, args...)}
}

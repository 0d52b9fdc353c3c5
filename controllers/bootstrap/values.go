package bootstrap

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
)

// render reads what the templates need, and renders the bootstrap data.
func (r *Reconciler) render(ctx context.Context, s *scope) ([]byte, *problem, error) {
	spec := &s.config.Spec
	userData := spec.UserData
	if from := spec.UserDataFrom; from != nil {
		text, found, err := r.read(ctx, s.config.Namespace, "spec.userDataFrom", bootstrapv1.ReasonUserDataMissing, from.SecretKeyRef, from.ConfigMapKeyRef)
		if err != nil || found != nil {
			return nil, found, err
		}
		userData = text
	}
	values, size, refers := map[string]string{}, 0, spec.UserDataFrom != nil
	for _, v := range spec.Values {
		if v.Value != nil {
			values[v.Name] = *v.Value
			continue
		}
		refers = true
		text, found, err := r.read(ctx, s.config.Namespace, fmt.Sprintf("spec.values[%s]", v.Name), bootstrapv1.ReasonValueMissing, v.SecretKeyRef, v.ConfigMapKeyRef)
		if err != nil || found != nil {
			return nil, found, err
		}
		values[v.Name] = text
		if size += len(text); size > render.MaxData {
			return nil, &problem{reason: bootstrapv1.ReasonDataTooLarge, failure: true, retry: true, message: fmt.Sprintf(
				"The values together have more than %d bytes, which a Secret holds. Let the server download the large parts when it boots", render.MaxData)}, nil
		}
	}
	data, err := render.BootstrapData(spec, userData, render.DataOf(s.cluster, s.machine, values))
	var invalid *render.Error
	if errors.As(err, &invalid) {
		// A template in another object can be corrected there, without an event here.
		return nil, &problem{reason: invalid.Reason, message: sentence(err.Error()), failure: true, retry: refers}, nil
	}
	return data, nil, err
}

// sentence returns an error with a capital letter, as the message of a condition.
func sentence(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// read returns the data at a key of a Secret or ConfigMap. missing is the reason of the condition if it does not exist.
func (r *Reconciler) read(ctx context.Context, namespace, field, missing string, secretRef, configMapRef *bootstrapv1.KeyReference) (string, *problem, error) {
	ref, kind := secretRef, "Secret"
	if ref == nil {
		ref, kind = configMapRef, "ConfigMap"
	}
	if ref == nil {
		return "", &problem{reason: missing, message: field + " refers to neither a Secret nor a ConfigMap"}, nil // the CRD refuses it
	}
	o, lookUp := source(kind)
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if err := r.Client.Get(ctx, key, o); apierrors.IsNotFound(err) {
		return "", &problem{reason: missing, retry: true, message: fmt.Sprintf("%s: %s %s does not exist. Create it", field, kind, ref.Name)}, nil
	} else if err != nil {
		return "", nil, err
	}
	if _, labeled := o.GetLabels()[bootstrapv1.ValueSecretLabel]; secretRef != nil && !labeled {
		return "", &problem{reason: bootstrapv1.ReasonSecretNotLabeled, retry: true, message: fmt.Sprintf(
			"%s: Secret %s does not have the label %s, so it must not be used for bootstrap data. Permit it with: kubectl label secret -n %s %s %s=",
			field, ref.Name, bootstrapv1.ValueSecretLabel, namespace, ref.Name, bootstrapv1.ValueSecretLabel)}, nil
	}
	text, ok := lookUp(ref.Key)
	if !ok {
		return "", &problem{reason: missing, retry: true, message: fmt.Sprintf("%s: %s %s has no key %s. Add it", field, kind, ref.Name, ref.Key)}, nil
	}
	return text, nil, r.labelForMove(ctx, o, kind)
}

// source returns an empty object of a kind, and how to look up a key once the object has been read.
func source(kind string) (client.Object, func(key string) (string, bool)) {
	if kind == "Secret" {
		secret := &corev1.Secret{}
		return secret, func(key string) (string, bool) {
			value, ok := secret.Data[key]
			return string(value), ok
		}
	}
	configMap := &corev1.ConfigMap{}
	return configMap, func(key string) (string, bool) {
		if text, ok := configMap.Data[key]; ok {
			return text, true
		}
		value, ok := configMap.BinaryData[key]
		return string(value), ok
	}
}

// rootCA is the ConfigMap that Kubernetes creates in each namespace.
const rootCA = "kube-root-ca.crt"

// labelForMove makes `clusterctl move` take an object along: later Machines of the same template need it too.
func (r *Reconciler) labelForMove(ctx context.Context, o client.Object, kind string) error {
	if o.GetName() == rootCA { // each namespace of each cluster has its own
		return nil
	}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return controllers.LabelForMove(ctx, r.Client, metadata)
}

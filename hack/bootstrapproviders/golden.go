package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	objects = "hack/bootstrapproviders/objects"
	goldens = "hack/seedcheck/testdata/providers"
)

// writeGoldens writes the golden Secrets of all objects of a provider: NAME-*.yaml.
func writeGoldens(ctx context.Context, name string, p provider) (err error) {
	cases, err := filepath.Glob(filepath.Join(objects, name+"-*.yaml"))
	if err != nil || len(cases) == 0 {
		return fmt.Errorf("no objects of %s: %w", name, err)
	}
	running, err := start(ctx, p)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	for n, path := range cases {
		secret, err := running.secretOf(ctx, path, fmt.Sprintf("case-%d", n))
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(running.dir, "manager.log"))
			return fmt.Errorf("%s: %w\n%s", path, err, log[max(0, len(log)-1500):])
		}
		content, err := golden(p.title, secret)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(filepath.Join(goldens, filepath.Base(path)), content, 0o600); err != nil {
			return err
		}
		fmt.Println("written:", filepath.Base(path))
	}
	return nil
}

// secretOf creates the objects of a file in a namespace of their own, and waits for the bootstrap Secret.
func (p *plane) secretOf(ctx context.Context, path, namespace string) (*corev1.Secret, error) {
	content, err := os.ReadFile(path) //nolint:gosec // a file of this repository
	if err != nil {
		return nil, err
	}
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return nil, err
	}
	secrets, err := p.clusterSecrets(namespace)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		if err := p.client.Create(ctx, secret); err != nil {
			return nil, err
		}
	}
	owners := map[string]metav1.OwnerReference{}
	var config *unstructured.Unstructured
	for documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		object.SetNamespace(namespace)
		p.own(object, owners)
		if err := p.create(ctx, object); err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetKind(), err)
		}
		owners[object.GetKind()] = *metav1.NewControllerRef(object, object.GroupVersionKind())
		config = object
	}
	secret := &corev1.Secret{}
	err = wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := p.client.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return false, err
		}
		name, _, _ := unstructured.NestedString(config.Object, "status", "dataSecretName")
		if name == "" {
			return false, nil
		}
		return true, p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	})
	if err != nil {
		status, _ := yaml.Marshal(config.Object["status"])
		return nil, fmt.Errorf("the bootstrap Secret: %w\n%s", err, status)
	}
	return secret, nil
}

// own sets the owners that Cluster API's controllers would set.
func (p *plane) own(object *unstructured.Unstructured, owners map[string]metav1.OwnerReference) {
	if strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") && strings.Contains(object.GetKind(), "Config") {
		object.SetOwnerReferences([]metav1.OwnerReference{owners["Machine"]})
	}
	_, controlPlane := object.GetLabels()["cluster.x-k8s.io/control-plane"]
	if owner, ok := owners["K0sControlPlane"]; ok && controlPlane {
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
}

func (p *plane) create(ctx context.Context, object *unstructured.Unstructured) error {
	status, ok := object.Object["status"]
	var refused error
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		refused = p.client.Create(ctx, object) // the manager may not yet answer for its webhooks
		select {
		case <-p.manager.Done():
			return false, errors.New("the manager has ended")
		default:
			return refused == nil || !apierrors.IsInternalError(refused), nil
		}
	})
	if err = errors.Join(err, refused); err != nil || !ok {
		return err
	}
	object.Object["status"] = status
	return p.client.Status().Update(ctx, object)
}

// clusterSecrets are what a control plane provider would have written: a kubeconfig and a CA. The kubeconfig is this API server's. A manager that makes a token
// in the workload cluster makes it here.
func (p *plane) clusterSecrets(namespace string) ([]*corev1.Secret, error) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "c"}}
	}
	certificate, key, err := p.servingCertificate()
	return []*corev1.Secret{
		{ObjectMeta: meta("c-kubeconfig"), Data: map[string][]byte{"value": p.kubeconfig}, Type: "cluster.x-k8s.io/secret"},
		{ObjectMeta: meta("c-ca"), Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}, Type: "cluster.x-k8s.io/secret"},
	}, err
}

// golden renders a Secret without what is secret or changes with each run. The bootstrap data is a block of text, so that a change of it can be read.
func golden(title string, secret *corev1.Secret) ([]byte, error) {
	data := map[string]string{}
	for key, value := range secret.Data {
		if key != "value" {
			data[key] = string(value)
		}
	}
	head, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": string(secret.Type), "metadata": map[string]any{"name": secret.Name, "labels": secret.Labels},
	})
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString("# " + title + "\n" + string(head) + "stringData:\n")
	for _, key := range slices.Sorted(maps.Keys(data)) {
		out.WriteString("  " + key + ": " + strconv.Quote(data[key]) + "\n")
	}
	value := placeholders(string(secret.Data["value"]))
	block := "|2+"
	if !strings.HasSuffix(value, "\n") {
		block = "|2-"
		value += "\n"
	}
	out.WriteString("  value: " + block + "\n")
	for line := range strings.Lines(value) {
		if line != "\n" {
			line = "    " + line
		}
		out.WriteString(line)
	}
	return []byte(out.String()), nil
}

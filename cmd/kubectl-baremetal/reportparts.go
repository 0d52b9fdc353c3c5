package main

import (
	"bytes"
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/bundle"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/chain"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/timeline"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// reportParts are the parts of a support bundle.
type reportParts struct {
	redactor *bundle.Redactor
	trees    []objectTree
	files    []bundle.File
	unread   []why.Unread
	missing  []string // parts that are not objects, with the reason
	provider []string // the containers of the provider, with their images
}

// objectTree is an object as JSON values.
type objectTree struct {
	name string
	tree map[string]any
}

// add adds an object. A nil object is not added.
func (p *reportParts) add(object client.Object) {
	gvk, err := apiutil.GVKForObject(object, access.Scheme())
	if err != nil {
		gvk = object.GetObjectKind().GroupVersionKind() // an owner of another kind
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		p.missing = append(p.missing, object.GetName()+": "+err.Error())
		return
	}
	tree["apiVersion"], tree["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if gvk.Kind == why.KindConfig || strings.HasSuffix(gvk.Kind, "ControlPlane") {
		delete(tree, "spec") // it has the files and users of machines
	}
	p.trees = append(p.trees, objectTree{strings.ToLower(gvk.Kind) + "-" + object.GetName(), tree})
}

// addPast adds the objects that remember the past of the host.
func (p *reportParts) addPast(o *timeline.Objects) {
	if o.Host != nil {
		p.add(o.Host)
	}
	if o.Boot != nil {
		p.add(o.Boot)
	}
	if o.Inspection != nil {
		p.add(o.Inspection)
	}
	if o.Settings != nil {
		p.add(o.Settings)
	}
	for i := range o.Erasures {
		p.add(&o.Erasures[i])
	}
	for i := range o.Requests {
		p.add(&o.Requests[i])
	}
}

// addMachine adds the machine that has the host, and the objects around it.
func (p *reportParts) addMachine(ctx context.Context, reader *chain.Reader, host *v1alpha1.BareMetalHost) {
	if host == nil || host.Spec.ConsumerRef == nil {
		return
	}
	answer, err := reader.Explain(ctx, chain.Subject{Kind: why.KindBareMetalMachine, Name: host.Spec.ConsumerRef.Name})
	if err != nil {
		p.missing = append(p.missing, "objects of the machine: "+err.Error())
		return
	}
	o := answer.Objects
	for _, unread := range answer.Unread {
		if !slices.Contains(p.unread, unread) {
			p.unread = append(p.unread, unread)
		}
	}
	if o.BareMetalMachine != nil {
		p.add(o.BareMetalMachine)
	}
	if o.Machine != nil {
		p.add(o.Machine)
	}
	if o.Cluster != nil {
		p.add(o.Cluster)
	}
	if o.BareMetalCluster != nil {
		p.add(o.BareMetalCluster)
	}
	if o.Config != nil {
		p.add(o.Config)
	}
}

// learn collects the identities of all objects. Objects and texts are redacted after that.
func (p *reportParts) learn() {
	for _, object := range p.trees {
		p.redactor.Learn(object.tree)
	}
}

// objects redacts the objects and adds a file for each.
func (p *reportParts) objects() {
	for _, object := range p.trees {
		p.redactor.Tree(object.tree)
		content, err := yaml.Marshal(object.tree)
		if err != nil {
			p.missing = append(p.missing, object.name+": "+err.Error())
			continue
		}
		p.files = append(p.files, bundle.File{Name: "objects/" + object.name + ".yaml", Content: content})
	}
}

// text adds a file with a redacted text.
func (p *reportParts) text(name string, write func(*bytes.Buffer)) {
	var b bytes.Buffer
	write(&b)
	p.files = append(p.files, bundle.File{Name: name, Content: []byte(p.redactor.Text(b.String()))})
}

// logs adds the lines of the provider's logs that name the host or its machine. A log that cannot be read does not fail the rest.
func (r *reportRun) logs(ctx context.Context, cluster *access.Cluster, parts *reportParts, past *timeline.Objects, host string) {
	var pods corev1.PodList
	if _, err := access.Page(ctx, cluster.Client, &pods, "", client.InNamespace(r.providerNamespace)); err != nil {
		parts.missing = append(parts.missing, "logs of the namespace "+r.providerNamespace+": "+cmp.Or(string(access.Cause(err)), err.Error()))
		return
	}
	if len(pods.Items) == 0 {
		parts.missing = append(parts.missing, "logs: the namespace "+r.providerNamespace+" has no Pods; --provider-namespace names another one")
	}
	names := []string{host}
	if past.Host != nil && past.Host.Spec.ConsumerRef != nil {
		names = append(names, past.Host.Spec.ConsumerRef.Name)
	}
	match := bundle.Words(names...)
	for i := range pods.Items {
		pod := &pods.Items[i]
		for c := range pod.Spec.Containers {
			name := pod.Spec.Containers[c].Name
			parts.provider = append(parts.provider, pod.Name+" "+name+": "+pod.Spec.Containers[c].Image)
			lines, err := r.log(ctx, cluster, pod, name, match)
			file := "logs/" + pod.Name + "-" + name + ".log"
			if err != nil {
				parts.missing = append(parts.missing, file+": "+cmp.Or(string(access.Cause(err)), err.Error()))
			}
			if len(lines) > 0 {
				parts.files = append(parts.files, bundle.File{Name: file, Content: []byte(parts.redactor.Text(string(lines)))})
			}
		}
	}
}

// logTimeout is how long the read of one log may take: all lines are read, and most are dropped here.
const logTimeout = 2 * time.Minute

// log returns the last lines of the log of a container that match. They are not complete if there is an error.
func (r *reportRun) log(ctx context.Context, cluster *access.Cluster, pod *corev1.Pod, container string, match *regexp.Regexp) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := cluster.Log(ctx, pod, container, r.since)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // it is read only
	return bundle.Lines(stream, match)
}

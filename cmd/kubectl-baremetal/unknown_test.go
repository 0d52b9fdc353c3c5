package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// stranger draws what an API server of another version may answer: objects without known fields, with unknown ones, with values that this version does not have, and errors.
type stranger struct {
	*rand.Rand
	texts []string
	mu    *sync.Mutex // lists are read at the same time
}

func (s stranger) oneIn(n int) bool { return s.IntN(n) == 0 }

func (s stranger) text() string { return s.texts[s.IntN(len(s.texts))] }

// anything draws a JSON value.
func (s stranger) anything(depth int) any {
	kinds := 7
	if depth <= 0 {
		kinds = 5
	}
	switch s.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return s.oneIn(2)
	case 2:
		return s.Int64()
	case 3:
		return s.NormFloat64()
	case 4:
		return s.text()
	case 5:
		return []any{s.anything(depth - 1)}
	default:
		return map[string]any{s.text(): s.anything(depth - 1), "conditions": s.anything(depth - 1)}
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value draws a value of a type, as JSON, and rarely another one.
func (s stranger) value(of reflect.Type, depth int) any {
	if s.oneIn(2000) {
		return s.anything(1)
	}
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return []string{"0001-01-01T00:00:00Z", "2026-11-29T10:00:00.000000Z", "9999-12-31T23:59:59Z"}[s.IntN(3)]
	case reflect.TypeFor[metav1.Duration]():
		return "5m"
	}
	if reflect.PointerTo(of).Implements(unmarshaler) {
		return nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return s.value(of.Elem(), depth)
	case reflect.Struct:
		return s.object(of, depth)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "eA=="
		}
		list := make([]any, s.IntN(3))
		for i := range list {
			list[i] = s.value(of.Elem(), depth-1)
		}
		return list
	case reflect.Map:
		return map[string]any{s.text(): s.value(of.Elem(), depth-1)}
	case reflect.String:
		return s.text()
	case reflect.Bool:
		return s.oneIn(2)
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return s.IntN(100)
	default:
		return nil
	}
}

// object draws some fields of a struct.
func (s stranger) object(of reflect.Type, depth int) map[string]any {
	drawn := map[string]any{}
	if s.oneIn(20) {
		drawn["unknownField"] = s.anything(2)
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			maps.Copy(drawn, s.object(field.Type, depth))
		case depth > 0 && !s.oneIn(3):
			drawn[name] = s.value(field.Type, depth-1)
		}
	}
	return drawn
}

// fill draws the object that the API server answers, or its error.
func (s stranger) fill(into runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Resource: "x"}
	switch s.IntN(20) {
	case 1:
		return apierrors.NewNotFound(resource, "x")
	case 2:
		return apierrors.NewForbidden(resource, "x", errors.New("no"))
	case 3:
		return &meta.NoKindMatchError{}
	}
	drawn := s.object(reflect.TypeOf(into).Elem(), 7)
	if free, ok := into.(*unstructured.Unstructured); ok {
		free.Object["status"], free.Object["spec"] = s.anything(3), s.anything(3)
		return nil
	}
	content, err := json.Marshal(drawn)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// client returns the API server.
func (s stranger) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			err := s.fill(o)
			o.SetName(key.Name)
			o.SetNamespace(key.Namespace)
			return err
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			err := s.fill(list)
			list.SetContinue("")
			return err
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
				review.Status.UserInfo.Username = "anna"
				return nil
			}
			return errors.New("nothing is created here")
		},
	})
}

// commands are the arguments of each command that reads, with x as the name of the object, and of the changes as far as they are planned.
var commands = []string{
	"status", "status --hosts -o wide", "status -A --by cluster -o json", "status x", "events x", "events x -o json", "power status x", "power status -o yaml", "erasures", "erasures x -o certificate",
	"power off x --dry-run", "power on x --dry-run", "power cycle x --dry-run", "maintenance start x --dry-run", "maintenance end x --dry-run", "quarantine start x --dry-run", "quarantine end x --dry-run",
	"inspect x --dry-run -o yaml", "drain start x --dry-run", "erase x --policy Clear --dry-run", "report x --without-logs", "why x", "why x -o json", "why host/x -o wide", "why boot/x", "why machine/x",
	"why baremetalmachine/x", "why cluster/x", "why baremetalcluster/x", "why machinedeployment/x", "why machineset/x", "why kubeadmcontrolplane/x", "why baremetalconfig/x", "why baremetalremediation/x",
	"why baremetalerasurerequest/x", "why baremetalmachinetemplate/x",
}

// FuzzUnknownObjects: whatever an API server of another version answers, each command ends with one of its exit codes, and prints nothing that controls a terminal.
func FuzzUnknownObjects(f *testing.F) {
	texts := []string{
		"", "x", "m", "True", "False", "Unknown", "Ready", "BMCReady", "Verified", "Booted", "BootProgress", "HostClaimed", "HostBooted", "NodeMatched", "Deleting", "HardwareHealthy", "Available",
		"Machine", "BareMetalMachine", "BareMetalHost", "OfALaterVersion", "\x1b[2J\u202e", "redfish://u:p@192.0.2.1", strings.Repeat("y", 2000), "value", "192.0.2.300",
	}
	for _, table := range why.Tables() {
		texts = append(texts, table.Rows[0].Reason, table.Rows[len(table.Rows)-1].Reason)
	}
	const seeds = 10
	for i := range uint64(seeds) {
		f.Add(rapidtest.Seed(f) + i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		b := newBench()
		b.client = stranger{rand.New(rand.NewPCG(seed, 0)), texts, &sync.Mutex{}}.client(b.client)
		for _, command := range commands {
			args := strings.Fields(command)
			if args[0] == "report" {
				args = append(args, "--file", filepath.Join(t.TempDir(), "report.tar.gz"))
			}
			got := b.run(t, args...)
			if !slices.Contains([]int{exitOK, exitFault, exitUnanswered}, got.code) || strings.Contains(got.out+got.err, "\x1b") {
				t.Errorf("%s: exit code %d: %q", command, got.code, got.out+got.err)
			}
		}
	})
}

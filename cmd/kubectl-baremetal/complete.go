package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/chain"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// completionTimeout is how long a completion waits for the API server. A person presses the key again.
const completionTimeout = 3 * time.Second

// noFiles keeps the shell from completing names of files.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// complete completes a flag with words. It panics if the command does not have the flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, noFiles)); err != nil {
		panic(err)
	}
}

// completeHosts completes the names of hosts that are not among the arguments yet.
func (t *tool) completeHosts(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	names := t.names(cmd.Context(), v1alpha1.GroupVersion.WithKind(why.KindHost), true)
	return matching(names, args, toComplete), noFiles
}

// completeHost completes the name of the only host.
func (t *tool) completeHost(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return t.completeHosts(cmd, args, toComplete)
}

// completeSubject completes hosts, and kinds with a slash after them.
func (t *tool) completeSubject(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	names := t.names(cmd.Context(), v1alpha1.GroupVersion.WithKind(why.KindHost), true)
	for _, kind := range chain.Kinds() {
		names = append(names, kind+"/")
	}
	return matching(names, nil, toComplete), noFiles | cobra.ShellCompDirectiveNoSpace
}

// completeNamespaces completes --namespace.
func (t *tool) completeNamespaces(root *cobra.Command) {
	err := root.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return matching(t.names(cmd.Context(), corev1.SchemeGroupVersion.WithKind("Namespace"), false), nil, toComplete), noFiles
	})
	if err != nil {
		panic(err)
	}
}

// names returns the names of the objects of a kind, or of those that could be read in time: a completion does not report errors.
func (t *tool) names(ctx context.Context, kind schema.GroupVersionKind, inNamespace bool) []string { //nolint:contextcheck // cobra gives a completion no context in some of its calls
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	cluster, err := t.connect()
	if err != nil {
		return nil
	}
	var options []client.ListOption
	if inNamespace {
		options = append(options, client.InNamespace(cluster.Namespace))
	}
	var names []string
	_ = access.Pages(ctx, cluster.Client, func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}, func(list *metav1.PartialObjectMetadataList) {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}, options...)
	return names
}

// matching returns the names with a prefix that are not used yet.
func matching(names, used []string, prefix string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) || slices.Contains(used, name) })
}

package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// LabelForMove makes `clusterctl move` take a Secret along, unless it is being deleted. An owner reference would do so too, but deleting the owner would
// then delete the user's Secret.
func LabelForMove(ctx context.Context, c client.Client, secret *metav1.PartialObjectMetadata) error {
	if _, ok := secret.Labels[v1alpha1.MoveLabel]; ok || !secret.DeletionTimestamp.IsZero() {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, v1alpha1.MoveLabel)
	return client.IgnoreNotFound(c.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch)))
}

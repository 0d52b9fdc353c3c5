package access

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Cause returns why an object could not be read. It is empty for an error that says nothing about the object, such as a lost connection.
func Cause(err error) why.UnreadCause {
	switch {
	case err == nil:
		return ""
	case meta.IsNoMatchError(err), runtime.IsNotRegisteredError(err):
		return why.NotInstalled
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return why.NotInstalled // the API server has no such path
	case apierrors.IsNotFound(err):
		return why.NotFound
	case apierrors.IsForbidden(err):
		return why.NotPermitted
	default:
		return ""
	}
}

// Get reads an object.
func Get(ctx context.Context, c client.Reader, key client.ObjectKey, into client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Get(ctx, key, into)
}

// Pages lists objects page by page. newList returns an empty list for each page, and take gets it.
func Pages[L client.ObjectList](ctx context.Context, c client.Reader, newList func() L, take func(L), options ...client.ListOption) error {
	for token := ""; ; {
		list := newList()
		if err := page(ctx, c, list, token, options); err != nil {
			return err
		}
		take(list)
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}

// page lists the objects of one page. token is that of the page before; empty for the first page.
func page(ctx context.Context, c client.Reader, list client.ObjectList, token string, options []client.ListOption) error {
	return List(ctx, c, list, append(slices.Clone(options), client.Limit(PageSize), client.Continue(token))...)
}

// Page lists the objects of one page, and returns the token of the next page, which is empty after the last page. token is that of the page before; empty for the first page.
func Page(ctx context.Context, c client.Reader, list client.ObjectList, token string, options ...client.ListOption) (next string, err error) {
	err = page(ctx, c, list, token, options)
	return list.GetContinue(), err
}

// List lists objects with one request.
func List(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.List(ctx, list, options...)
}

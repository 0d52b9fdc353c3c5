package access

import (
	"cmp"
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// User returns the name of the user. It is the one that the API server authenticated (SelfSubjectReview), with --as the one that is impersonated. If the API server does
// not say it, the name is that of the kubeconfig, which nothing proves, and confirmed is false.
func (c *Cluster) User(ctx context.Context) (name string, confirmed bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Client.Create(ctx, review); err == nil && review.Status.UserInfo.Username != "" {
		return review.Status.UserInfo.Username, true
	}
	return cmp.Or(c.ContextUser, "unknown user"), false
}

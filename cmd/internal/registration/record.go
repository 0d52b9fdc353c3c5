package registration

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/rackfile"
)

// sign sets the annotation that says who asks for the registration.
func (r *Registration) sign() {
	for _, s := range r.servers {
		if r.RequestedBy != "" {
			metav1.SetMetaDataAnnotation(&s.Host.ObjectMeta, v1alpha1.HostRequestedByAnnotation, r.RequestedBy)
		}
	}
}

// record records who asks for the registration, for each line that may change something: a Secret may, since its content is not compared. A host that does not change keeps its
// annotation.
func (r *Registration) record(ctx context.Context, verdicts []string) error {
	return r.each(ctx, func(ctx context.Context, i int, s rackfile.Server) error {
		host, live := s.Host, r.live[s.Host.Name]
		if live != nil {
			host = live
		}
		if verdicts[i] == hostUnchanged {
			delete(s.Host.Annotations, v1alpha1.HostRequestedByAnnotation)
			if by := live.Annotations[v1alpha1.HostRequestedByAnnotation]; by != "" {
				metav1.SetMetaDataAnnotation(&s.Host.ObjectMeta, v1alpha1.HostRequestedByAnnotation, by)
			}
			if s.Secret == nil {
				return nil
			}
		}
		if r.Record == nil {
			return nil
		}
		return r.Record(ctx, host)
	})
}

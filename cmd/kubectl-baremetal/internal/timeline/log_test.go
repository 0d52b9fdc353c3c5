package timeline

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestLogEntries: the entries of the BMC's logs are in the time line, those without a time are not, and they can be selected.
func TestLogEntries(t *testing.T) {
	g := NewWithT(t)
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	host.Status.Health = &v1alpha1.HealthStatus{Log: []v1alpha1.LogEntry{
		{Time: &noon, Log: "SEL", ID: "7", Severity: "Critical", Message: "PSU 2: input lost"}, {Log: "SEL", ID: "8", Severity: "Warning", Message: "no time"},
	}}
	all := Entries(&Objects{Host: host})
	g.Expect(Select(all, time.Time{}, []string{string(SourceLog)})).To(Equal([]Entry{{
		Time: noon.Time, Source: SourceLog, What: "Critical", By: "BMC", Message: "PSU 2: input lost (entry 7 of SEL)", Warning: true,
	}}))
	g.Expect(Sources()).To(ContainElement(string(SourceLog)))
	g.Expect(logEntries(nil)).To(BeEmpty())
}

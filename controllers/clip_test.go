package controllers

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestOneOf: what is no word of the API is unknown, also one that differs only in case.
func TestOneOf(t *testing.T) {
	g := NewWithT(t)
	g.Expect(HealthOf("Warning")).To(Equal(v1alpha1.HealthWarning))
	for _, text := range []string{"", "warning", "Warning\n", "Fine"} {
		g.Expect(HealthOf(text)).To(BeEmpty(), "%q", text)
	}
}

package seed

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestFiles(t *testing.T) {
	g := NewWithT(t)
	d := Data{InstanceID: "i-1", Hostname: "m-1", ProviderID: "baremetal://dc/h/m-1", UserData: []byte("## template: jinja\n"), ReportPath: "/report/dc/h/t"}
	read := func(name string) string {
		content, ok, err := File(d, name, "http://192.0.2.1:8080")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeTrue())
		return string(content)
	}
	var meta map[string]string
	g.Expect(yaml.Unmarshal([]byte(read(MetaData)), &meta)).To(Succeed())
	g.Expect(meta).To(Equal(map[string]string{
		"instance-id": "i-1", "local-hostname": "m-1", "hostname": "m-1", "provider-id": "baremetal://dc/h/m-1", "provider_id": "baremetal://dc/h/m-1",
	}))
	g.Expect(read(UserData)).To(Equal("## template: jinja\n"), "the bootstrap data goes through untouched")
	g.Expect(read(VendorData)).To(HavePrefix("#cloud-config\n"))
	g.Expect(read(VendorData)).To(ContainSubstring("url: http://192.0.2.1:8080/report/dc/h/t"))
	_, ok, err := File(d, "../etc/passwd", "")
	g.Expect(ok, err).To(BeFalse())
}

package redfish

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// testName matches names of tests in the docs.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")

// TestDocsTests: the tests that the docs name exist.
func TestDocsTests(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/development/bmc-faults.md")
	g.Expect(err).NotTo(HaveOccurred())
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return fs.SkipDir // what was built
		}
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(name)
		tests.Write(content)
		return err
	})
	g.Expect(err).NotTo(HaveOccurred())
	named := testName.FindAllStringSubmatch(string(page), -1)
	g.Expect(named).NotTo(BeEmpty())
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name[1]+"(") {
			t.Errorf("docs/development/bmc-faults.md names %s, and there is no such test", name[1])
		}
	}
}

// TestDocs: the docs describe every fault, every quirk and every boot method.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	mentions := func(name, word string) {
		t.Helper()
		page, err := os.ReadFile(filepath.Join("../../docs", name))
		g.Expect(err).NotTo(HaveOccurred())
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/%s does not mention %s", name, word)
		}
	}
	for fault := range bmctest.Faults {
		mentions("development/bmc-faults.md", string(fault))
	}
	page, err := os.ReadFile("../../docs/development/bmc-faults.md")
	g.Expect(err).NotTo(HaveOccurred())
	for _, bound := range []string{
		fmt.Sprintf("`Failed` after %d minute |", defaultMediaTimeout/time.Minute), fmt.Sprintf("repeats the insert for %d minute,", defaultMediaTimeout/time.Minute),
		fmt.Sprintf("waits up to %d minutes", maxCopyWaits*defaultMediaTimeout/time.Minute),
	} {
		g.Expect(string(page)).To(ContainSubstring(bound))
	}
	for _, known := range knownQuirks {
		mentions("reference/hardware.md", known.name)
		if known.observation == "" {
			t.Errorf("%s: what was observed?", known.name)
		}
	}
	for _, method := range append(methods, methodBootOrder) {
		mentions("reference/hardware.md", string(method))
	}
}

// TestQuirks: which entries apply to which BMC.
func TestQuirks(t *testing.T) {
	for name, test := range map[string]struct {
		vendors, model string
		want           []string
		first          bmc.BootMethod
	}{
		"nothing known":    {"Emulated", "bmctest", nil, methodPlain},
		"Supermicro":       {"Supermicro", "SYS-120C", []string{"supermicro-mode-always", "supermicro-usbcd", "supermicro-image-only"}, methodPlain},
		"Supermicro X10":   {"Super Micro", "X10SRM-TF", []string{"supermicro-mode-always", "supermicro-x10-no-mode", "supermicro-usbcd", "supermicro-image-only"}, methodNoMode},
		"Supermicro ARS":   {"Supermicro", "ARS-111GL-NHR", []string{"supermicro-mode-always", "supermicro-usbcd", "supermicro-ars-cd", "supermicro-image-only"}, methodPlain},
		"HPE":              {"HPE", "ProLiant DL360 Gen10", []string{"hpe-mode-readonly", "hpe-disable-only"}, methodNoMode},
		"Dell iDRAC 9":     {"Dell Inc.", "PowerEdge R650", []string{"dell-service-tag", "dell-bios-job", "dell-secure-boot-attribute"}, methodPlain},
		"Dell iDRAC 10":    {"Dell Inc.", "PowerEdge R670", []string{"dell-service-tag", "dell-bios-job", "dell-secure-boot-attribute", "dell-17g-settings", "dell-17g-drive"}, methodSettings},
		"Lenovo":           {"Lenovo", "ThinkSystem SR650", []string{"lenovo-drive-ext"}, methodPlain},
		"AMI":              {"GIGABYTE", "R282-P91-00", []string{"ami-settings-at-sd", "ami-whole-boot"}, methodPlain},
		"AMI for NVIDIA":   {"NVIDIA,AMI", "DGXH100", []string{"ami-settings-at-sd", "ami-whole-boot"}, methodPlain},
		"Cray":             {"HPE", "HPE CRAY EX235a", nil, methodPlain},
		"Cisco":            {"Cisco Systems Inc", "UCSS-S3260", []string{"cisco-mebibytes"}, methodPlain},
		"another Emulator": {"Sushy Emulator", "", []string{"sushy-disk-is-home", "sushy-mode-resets-secure-boot"}, methodPlain},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, names := quirksOf(strings.Split(test.vendors, ","), test.model, "")
			g.Expect(names).To(Equal(test.want))
			g.Expect((&overrides{system: &system{quirk: q}}).BootMethods()).To(And(HaveLen(len(methods)), HaveExactElements(test.first, Not(BeEmpty()), Not(BeEmpty()), Not(BeEmpty()), Not(BeEmpty()))))
		})
	}
}

// TestQuirksAct: each quirk changes the requests.
func TestQuirksAct(t *testing.T) {
	g := NewWithT(t)
	s := &system{resource: resource{"Boot": map[string]any{"BootSourceOverrideMode": "Legacy"}}}
	boot, virtual := &overrides{system: s}, &media{system: s}
	s.quirk, _ = quirksOf([]string{"Supermicro"}, "", "")
	for want, allowed := range map[schemas.BootSource][]string{usbCD: {"Cd", "UsbCd"}, "Cd": {"Pxe", "Cd"}} { // OpenBMC on a Supermicro board has no UsbCd
		g.Expect(boot.target(s.resource, allowed, bmc.BootOverride{Target: bmc.BootCD})).To(Equal(want))
	}
	g.Expect(boot.target(s.resource, nil, bmc.BootOverride{Target: bmc.BootCD})).To(Equal(usbCD))
	s.quirk, _ = quirksOf([]string{"Lenovo"}, "", "")
	drives := []resource{{"Id": "RDOC1", "MediaTypes": []any{"CD"}}, {"Id": "EXT1", "MediaTypes": []any{"CD"}}}
	g.Expect(virtual.bootDrives(drives)).To(Equal(drives[1:]))
	g.Expect(virtual.bootDrives(drives[:1])).To(HaveLen(1), "vendor names are unreliable: without a drive of the quirk, it is tried")
	s.quirk, _ = quirksOf([]string{"GIGABYTE"}, "", "")
	s.path = "/redfish/v1/Systems/Self"
	g.Expect(s.settings()).To(Equal("/redfish/v1/Systems/Self/SD"))
}

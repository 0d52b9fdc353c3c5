package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// A refused case makes one change to an object that is accepted. The error of the API server must contain the field and the remedy.
type refused[T any] struct {
	name          string
	change        func(T)
	field, remedy string
}

// accepted cases check that a rule does not refuse valid objects.
type accepted[T any] struct {
	name   string
	change func(T)
}

var (
	sha256 = "sha256:" + strings.Repeat("0a", 32)
	sha512 = "sha512:" + strings.Repeat("0a", 64)
)

func validHost() *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{
		BMC:              v1alpha1.BMC{Address: "redfish://192.0.2.10/redfish/v1/Systems/1", CredentialsSecretName: "bmc"},
		BootMACAddresses: []string{"52:54:00:12:34:56"},
	}}
}

func validMachineSpec() v1alpha1.BareMetalMachineSpec {
	return v1alpha1.BareMetalMachineSpec{Boot: v1alpha1.BootSource{
		Kernel:      v1alpha1.Artifact{URL: "http://192.0.2.1/kernel", Checksum: sha256},
		Initrds:     []v1alpha1.Artifact{{URL: "https://images.example.com/initrd?v=1", Checksum: sha512}},
		CommandLine: "console=ttyS0 ip=dhcp",
		Persistence: v1alpha1.PersistenceInstalled,
	}}
}

func validMachine() *v1alpha1.BareMetalMachine {
	return &v1alpha1.BareMetalMachine{Spec: validMachineSpec()}
}

func validMachineTemplate() *v1alpha1.BareMetalMachineTemplate {
	return &v1alpha1.BareMetalMachineTemplate{Spec: v1alpha1.BareMetalMachineTemplateSpec{
		Template: v1alpha1.BareMetalMachineTemplateResource{Spec: validMachineSpec()},
	}}
}

func validCluster() *v1alpha1.BareMetalCluster {
	return &v1alpha1.BareMetalCluster{Spec: v1alpha1.BareMetalClusterSpec{
		ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.20", Port: 6443},
	}}
}

// refuse checks that the API server refuses to create each case.
func refuse[T client.Object](t *testing.T, valid func() T, cases []refused[T]) {
	t.Helper()
	namespace := env.Namespace(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := valid()
			c.change(o)
			o.SetNamespace(namespace)
			o.SetGenerateName("bad-")
			expectRefused(t, env.Client.Create(t.Context(), o), c.field, c.remedy)
		})
	}
}

// accept checks that each case can be created.
func accept[T client.Object](t *testing.T, valid func() T, cases []accepted[T]) {
	t.Helper()
	namespace := env.Namespace(t)
	for _, c := range append([]accepted[T]{{"nothing changed", func(T) {}}}, cases...) {
		t.Run(c.name, func(t *testing.T) {
			o := valid()
			c.change(o)
			o.SetNamespace(namespace)
			o.SetGenerateName("good-")
			NewWithT(t).Expect(env.Client.Create(t.Context(), o)).To(Succeed())
		})
	}
}

func expectRefused(t *testing.T, err error, field, remedy string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got %v", err)
	g.Expect(err.Error()).To(And(ContainSubstring(field+": "), ContainSubstring(remedy)))
}

func TestHostRefused(t *testing.T) {
	type host = *v1alpha1.BareMetalHost
	const (
		address       = "spec.bmc.address"
		mac           = "spec.bootMACAddresses[0]"
		failureDomain = "spec.failureDomain"
	)
	domain := func(name string) func(host) { return func(h host) { h.Spec.FailureDomain = name } }
	at := func(a string) func(host) { return func(h host) { h.Spec.BMC.Address = a } }
	boots := func(m string) func(host) { return func(h host) { h.Spec.BootMACAddresses = []string{m} } }
	logsInWith := func(s string) func(host) { return func(h host) { h.Spec.BMC.CredentialsSecretName = s } }
	reserves := func(a ...string) func(host) { return func(h host) { h.Spec.BootAddresses = a } }
	keeps := func(disks ...wire.KeptDisk) func(host) {
		return func(h host) { h.Spec.Storage = &v1alpha1.HostStorage{Keep: disks} }
	}
	refuse(t, validHost, []refused[host]{
		{"address missing", at(""), address, "Required value"},
		{"address is no URL", at("192.0.2.10"), address, "must be a URL with a host, like redfish://192.0.2.10"},
		{"address is a word", at("bmc"), address, "must be a URL with a host"},
		{"address with a scheme only", at("redfish:"), address, "must be a URL with a host"},
		{"address without a host", at("redfish:///redfish/v1/Systems/1"), address, "must be a URL with a host"},
		{"address with a port only", at("redfish://:8443/"), address, "must be a URL with a host"},
		{"address with a space", at("redfish://192.0.2.10 /"), address, "must be a URL with a host"},
		{"address with http", at("http://192.0.2.10"), address, "use redfish://, ipmi://"},
		{"address with https", at("https://192.0.2.10"), address, "use redfish://, ipmi://"},
		{"address with telnet", at("telnet://192.0.2.10"), address, "use redfish://, ipmi://"},
		{"address with credentials", at("redfish://root:calvin@192.0.2.10"), address, "Secret in credentialsSecretName"},
		{"address with a user", at("redfish://root@192.0.2.10"), address, "Secret in credentialsSecretName"},
		{"address with a fragment", at("redfish://192.0.2.10/redfish/v1#1"), address, "must not contain a fragment"},
		{"Redfish with a misspelt parameter", at("redfish://192.0.2.10?auht=session"), address, "supports only ?auth=session"},
		{"Redfish with an unknown authentication", at("redfish+http://192.0.2.10/redfish/v1/Systems/1?auth=token"), address, "supports only ?auth=session"},
		{"Redfish with a second parameter", at("redfish://192.0.2.10?auth=session&x=1"), address, "supports only ?auth=session"},
		{"IPMI with a path", at("ipmi://192.0.2.10/system/1"), address, "is not an IPMI address: it must have no path"},
		{"IPMI without authentication", at("ipmi://192.0.2.10?cipherSuite=0"), address, "cipherSuite (17 or 3)"},
		{"IPMI with an unknown privilege", at("ipmi://192.0.2.10?cipherSuite=3&privilege=root"), address, "privilege (user, operator or administrator)"},
		{"IPMI with an unknown parameter", at("ipmi://192.0.2.10?suite=17"), address, "like ipmi://192.0.2.10?cipherSuite=17&privilege=operator"},
		{"ipmitool with a privilege", at("ipmitool://192.0.2.10?privilege=operator"), address, "ipmitool supports only the parameter cipherSuite (17 or 3)"},
		{"ipmitool with a path", at("ipmitool://192.0.2.10/1"), address, "has an unsupported path or parameter"},
		{"AMT with a parameter", at("amt://192.0.2.10?cipherSuite=17"), address, "and AMT supports none"},
		{"a webhook without a BMC", at("rpc+https://power.example.com/rpc"), address, "append ?host=NAME"},
		{"a webhook with an empty BMC", at("rpc+http://power.example.com/rpc?signed=body&host="), address, "append ?host=NAME"},
		{"address too long", at("redfish://192.0.2.10/" + strings.Repeat("a", 512)), address, "Too long"},

		{"no MAC", func(h host) { h.Spec.BootMACAddresses = nil }, "spec.bootMACAddresses", "Required value"},
		{"five MACs", func(h host) {
			for n := range 4 {
				h.Spec.BootMACAddresses = append(h.Spec.BootMACAddresses, fmt.Sprintf("52:54:00:00:00:%02x", n))
			}
		}, "spec.bootMACAddresses", "Too many: 5: must have at most 4 items"},
		{"a MAC twice", func(h host) { h.Spec.BootMACAddresses = append(h.Spec.BootMACAddresses, h.Spec.BootMACAddresses[0]) }, "spec.bootMACAddresses", "must not have an address twice"},
		{"MAC missing", boots(""), mac, "should be at least 17 chars"},
		{"MAC in upper case", boots("52:54:00:AB:CD:EF"), mac, "lower case with colons, like 52:54:00:12:34:56"},
		{"MAC with hyphens", boots("52-54-00-12-34-56"), mac, "lower case with colons"},
		{"MAC without separators", boots("525400123456"), mac, "should be at least 17 chars"},
		{"MAC too short", boots("52:54:00:12:34"), mac, "should be at least 17 chars"},
		{"MAC too long", boots("52:54:00:12:34:56:78"), mac, "Too long"},
		{"MAC with a wrong digit", boots("52:54:00:12:34:5g"), mac, "lower case with colons"},
		{"MAC of a multicast group", boots("01:00:5e:00:00:01"), mac, "multicast address or all zeros"},
		{"MAC of everybody", boots("ff:ff:ff:ff:ff:ff"), mac, "multicast address or all zeros"},
		{"MAC of nobody", boots("00:00:00:00:00:00"), mac, "multicast address or all zeros"},

		{"credentials missing", logsInWith(""), "spec.bmc.credentialsSecretName", "Required value"},
		{"credentials with a namespace", logsInWith("other/bmc"), "spec.bmc.credentialsSecretName", "must be the name of a Secret"},
		{"credentials in upper case", logsInWith("BMC"), "spec.bmc.credentialsSecretName", "must be the name of a Secret"},
		{"credentials ending in a hyphen", logsInWith("bmc-"), "spec.bmc.credentialsSecretName", "must be the name of a Secret"},
		{"CA with an underscore", func(h host) { h.Spec.BMC.CASecretName = "my_ca" }, "spec.bmc.caSecretName", "must be the name of a Secret"},
		{"CA and no verification", func(h host) { h.Spec.BMC.CASecretName, h.Spec.BMC.InsecureSkipTLSVerify = "ca", true }, "spec.bmc", "set caSecretName or insecureSkipTLSVerify, not both"},

		{"reservation with a prefix length", reserves("192.0.2.10/24"), "spec.bootAddresses[0]", "must be an IP address in canonical form without a prefix length, like 192.0.2.10"},
		{"reservation of a name", reserves("192.0.2.10", "server-1"), "spec.bootAddresses[1]", "must be an IP address"},
		{"reservation with a zone", reserves("fe80::1%eth0"), "spec.bootAddresses[0]", "must be an IP address"},
		{"reservation in an unusual form", reserves("2001:DB8:0::1"), "spec.bootAddresses[0]", "in canonical form"},
		{"reservation of IPv4 as IPv6", reserves("::ffff:192.0.2.10"), "spec.bootAddresses[0]", "must be an IP address"},
		{"reservation twice", reserves("192.0.2.10", "192.0.2.10"), "spec.bootAddresses", "must not have an address twice"},
		{"too many reservations", reserves("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"), "spec.bootAddresses", "must have at most 4 items"},

		{"no name of a disk to keep", keeps(wire.KeptDisk{}), "spec.storage.keep[0]", "exactly one of the fields in [serialNumber wwn label] must be set"},
		{"two names of a disk to keep", keeps(wire.KeptDisk{SerialNumber: "S1", Label: "data"}), "spec.storage.keep[0]", "exactly one of the fields"},
		{"a blank serial number to keep", keeps(wire.KeptDisk{Label: "data"}, wire.KeptDisk{SerialNumber: "  "}), "spec.storage.keep[1].serialNumber", "must not be blank"},
		{"a blank label to keep", keeps(wire.KeptDisk{Label: " "}), "spec.storage.keep[0].label", "must not be blank"},
		{"a WWN to keep that is only a prefix", keeps(wire.KeptDisk{WWN: "wwn-0x"}), "spec.storage.keep[0].wwn", "must not be blank"},
		{"a WWN to keep that is only prefixes", keeps(wire.KeptDisk{WWN: "NAA.0x"}), "spec.storage.keep[0].wwn", "must not be blank"},
		{"a root device of any size", func(h host) {
			h.Spec.Storage = &v1alpha1.HostStorage{RootDevice: &v1alpha1.RootDeviceHints{MinSize: new(resource.MustParse("0"))}}
		}, "spec.storage.rootDevice.minSize", "must be greater than 0"},

		{"boot mode unknown", func(h host) { h.Spec.BootMode = "Legacy" }, "spec.bootMode", `supported values: "UEFI", "UEFISecureBoot", "BIOS"`},
		{"boot method unknown", func(h host) { h.Spec.BootMethods = []v1alpha1.BootMethod{"USB"} }, "spec.bootMethods[0]", `supported values: "PXE", "UefiHttp", "VirtualMedia"`},
		{"boot method twice", func(h host) { h.Spec.BootMethods = []v1alpha1.BootMethod{"PXE", "PXE"} }, "spec.bootMethods[1]", "Duplicate value"},
		{"a URL for a BIOS", func(h host) {
			h.Spec.BootMode, h.Spec.BootMethods = v1alpha1.BootModeBIOS, []v1alpha1.BootMethod{"PXE", "UefiHttp"}
		}, "spec", "must not contain UefiHttp with the bootMode BIOS"},
		{"virtual media by IPMI", func(h host) {
			h.Spec.BMC.Address, h.Spec.BootMethods = "ipmi://192.0.2.10", []v1alpha1.BootMethod{"VirtualMedia"}
		}, "spec", "must contain PXE unless bmc.address is a Redfish address"},
		{"architecture unknown", func(h host) { h.Spec.Architecture = "x86_64" }, "spec.architecture", `supported values: "amd64", "arm64"`},
		{"power in transition", func(h host) { h.Spec.Power = v1alpha1.PoweringOn }, "spec.power", "must be On or Off"},
		{"power unknown", func(h host) { h.Spec.Power = "on" }, "spec.power", `supported values: "On", "Off"`},
		{"powered on without a failure domain", func(h host) { h.Spec.WhenPoweredOff = "PowerOn" }, "spec", "must not be PowerOn without failureDomain"},
		{"powered on always", func(h host) { h.Spec.WhenPoweredOff = "AlwaysOn" }, "spec.whenPoweredOff", `supported values: "Report", "PowerOn"`},
		{"cleaning policy unknown", func(h host) { h.Spec.CleaningPolicy = "Wipe" }, "spec.cleaningPolicy", `supported values: "None", "Metadata", "Clear", "Purge", "Manual"`},
		{"Purge without an inspection", func(h host) { h.Spec.CleaningPolicy = "Purge" }, "spec", "must not be Purge unless inspection is Agent or Both"},
		{"Purge with an inspection by the BMC", func(h host) { h.Spec.CleaningPolicy, h.Spec.Inspection = "Purge", "BMC" }, "spec", "must not be Purge unless inspection is Agent or Both"},
		{"unfenced at once", func(h host) { h.Spec.ReleaseUnfencedAfterSeconds = new(int32(59)) }, "spec.releaseUnfencedAfterSeconds", "should be greater than or equal to 60"},
		{"failure domain of two lines", domain("rack-1\nrack-2"), failureDomain, "must be a label value"},
		{"failure domain ending in a newline", domain("rack-1\n"), failureDomain, "must be a label value"},
		{"failure domain in quotes", domain(`"rack-1"`), failureDomain, "must be a label value"},
		{"failure domain of two words", domain("rack 1"), failureDomain, "must be a label value"},
		{"failure domain too long", domain(strings.Repeat("a", 64)), failureDomain, "Too long"},
		{"maintenance without a reason", func(h host) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }, "spec.maintenance.reason", "Required value"},
	})
}

func TestHostAccepted(t *testing.T) {
	type host = *v1alpha1.BareMetalHost
	at := func(a string) func(host) { return func(h host) { h.Spec.BMC.Address = a } }
	accept(t, validHost, []accepted[host]{
		{"boot methods", func(h host) { h.Spec.BootMethods = []v1alpha1.BootMethod{"VirtualMedia", "UefiHttp"} }},
		{"disks to keep", func(h host) {
			h.Spec.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{SerialNumber: "S 1"}, {WWN: "wwn-0x5000c500a1b2c3d4"}, {WWN: "eui.0025385b71b00001"}, {Label: "ceph data"}}}
		}},
		{"an empty value of a taint", func(h host) {
			h.Spec.Taints = []v1alpha1.HostTaint{{Key: "gpu", Value: "", Effect: v1alpha1.TaintNoClaim}}
		}},
		{"virtual media for a BIOS", func(h host) {
			h.Spec.BootMode, h.Spec.BootMethods = v1alpha1.BootModeBIOS, []v1alpha1.BootMethod{"VirtualMedia"}
		}},
		{"IPMI with a method that it has", func(h host) {
			h.Spec.BMC.Address, h.Spec.BootMethods = "ipmi://192.0.2.10", []v1alpha1.BootMethod{"PXE", "VirtualMedia"}
		}},
		{"reservations", func(h host) { h.Spec.BootAddresses = []string{"192.0.2.10", "2001:db8::10"} }},
		{"IPv6", at("redfish://[2001:db8::1]:8443/redfish/v1/Systems/1")},
		{"cleaning by hand", func(h host) { h.Spec.CleaningPolicy = wire.PolicyManual }},
		{"unfenced after two hours", func(h host) { h.Spec.ReleaseUnfencedAfterSeconds = new(int32(7200)) }},
		{"unfenced after a minute", func(h host) { h.Spec.ReleaseUnfencedAfterSeconds = new(int32(60)) }},
		{"without a path", at("redfish://192.0.2.10")},
		{"a name", at("redfish://bmc-1.example.com:443")},
		{"without TLS", at("redfish+http://192.0.2.10:8000/redfish/v1/Systems/1")},
		{"IPMI", at("ipmi://192.0.2.10:623?cipherSuite=17&privilege=operator")},
		{"IPMI with a slash", at("ipmi://[2001:db8::1]/")},
		{"IPMI with one parameter", at("ipmi://192.0.2.10?privilege=administrator")},
		{"ipmitool", at("ipmitool://192.0.2.10")},
		{"ipmitool with a cipher suite", at("ipmitool://192.0.2.10:6230?cipherSuite=3")},
		{"basic authentication", at("redfish://192.0.2.10/redfish/v1/Systems/1?auth=basic")},
		{"AMT", at("amt://192.0.2.10")},
		{"AMT without TLS", at("amt+http://192.0.2.10:16992")},
		{"a webhook", at("rpc+https://power.example.com/rpc?host=node-1&signed=body")},
		{"a session", at("redfish://192.0.2.10?auth=session")},
		{"a CA", func(h host) { h.Spec.BMC.CASecretName = "ca.example" }},
		{"a CA, and verification asked for", func(h host) { h.Spec.BMC.CASecretName, h.Spec.BMC.InsecureSkipTLSVerify = "ca", false }},
		{"no verification", func(h host) { h.Spec.BMC.InsecureSkipTLSVerify = true }},
		{"an address that is administered locally", func(h host) { h.Spec.BootMACAddresses = []string{"02:00:00:00:00:01"} }},
		{"legacy boot, arm64, kept off", func(h host) {
			h.Spec.BootMode, h.Spec.Architecture, h.Spec.Power = v1alpha1.BootModeBIOS, v1alpha1.ArchitectureARM64, v1alpha1.PowerOff
		}},
		{"Secure Boot", func(h host) { h.Spec.BootMode = v1alpha1.BootModeUEFISecureBoot }},
		{"the longest failure domain", func(h host) { h.Spec.FailureDomain = "Row_2.rack-1" + strings.Repeat("a", 51) }},
		{"maintenance with a reason", func(h host) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }},
	})
}

// machineRules are the rules of a machine, which also apply in a template. The fields are relative to the spec.
func machineRules() []refused[*v1alpha1.BareMetalMachineSpec] {
	type spec = *v1alpha1.BareMetalMachineSpec
	kernel := func(url string) func(spec) { return func(s spec) { s.Boot.Kernel.URL = url } }
	sum := func(c string) func(spec) { return func(s spec) { s.Boot.Kernel.Checksum = c } }
	template := func(text string) func(spec) { return func(s spec) { s.Boot.IPXETemplate = text } }
	line := func(l string) func(spec) { return func(s spec) { s.Boot.CommandLine = l } }
	label := func(key, value string) func(spec) {
		return func(s spec) {
			s.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
		}
	}
	expr := func(key, operator string, values ...v1alpha1.LabelValue) func(spec) {
		return func(s spec) {
			s.HostSelector = &v1alpha1.HostSelector{MatchExpressions: []v1alpha1.HostSelectorRequirement{
				{Key: v1alpha1.LabelKey(key), Operator: metav1.LabelSelectorOperator(operator), Values: values},
			}}
		}
	}
	image := func(change func(*v1alpha1.Image)) func(spec) {
		return func(s spec) {
			s.Boot, s.Image = v1alpha1.BootSource{}, validImage()
			change(s.Image)
		}
	}
	const (
		url      = "boot.kernel.url"
		checksum = "boot.kernel.checksum"
		command  = "boot.commandLine"
		labels   = "hostSelector.matchLabels"
		one      = "hostSelector.matchExpressions[0]"

		wantURL  = "must be an http:// or https:// URL with a host and without credentials"
		wantSum  = "in lower case, as sha256sum and sha512sum print them"
		wantDS   = "must not contain ds=...: the provider sets it"
		wantWord = "the boot loader would end the command there"
		wantLine = "must be one line of printable ASCII characters"
		wantKey  = "like gpu or example.com/gpu"
		wantVals = "In and NotIn require values, Exists and DoesNotExist must not have values"
	)
	return []refused[spec]{
		{"kernel URL missing", kernel(""), url, "Required value"},
		{"image and boot", func(s spec) { s.Image = validImage() }, "", "exactly one of image"},
		{"neither image nor boot", func(s spec) { s.Boot, s.Hardware.CPU = v1alpha1.BootSource{}, 1 }, "", "exactly one of image"},
		{"image over FTP", image(func(i *v1alpha1.Image) { i.URL = "ftp://192.0.2.1/image" }), "image.url", "must be an http://, https:// or oci:// URL"},
		{"image with credentials", image(func(i *v1alpha1.Image) { i.URL = "https://anna:secret@example.com/image" }), "image.url", "without credentials"},
		{"image in no repository", image(func(i *v1alpha1.Image) { i.URL = "oci://registry.example.com" }), "image.url", "must be an http://, https:// or oci:// URL"},
		{"image with an MD5 checksum", image(func(i *v1alpha1.Image) { i.Checksum = "md5:0123" }), "image.checksum", "must be sha256:"},
		{"pull Secret of a file", image(func(i *v1alpha1.Image) { i.PullSecret = "pull" }), "image", "pullSecret is for an oci:// URL"},
		{"data source unknown", image(func(i *v1alpha1.Image) { i.DataSource = "Floppy" }), "image.dataSource", `supported values: "NoCloud", "ConfigDrive", "None"`},
		{"no hint", image(func(i *v1alpha1.Image) { i.RootDevice = &v1alpha1.RootDeviceHints{} }), "image.rootDevice", "at least 1"},
		{"SCSI address", image(func(i *v1alpha1.Image) { i.RootDevice = &v1alpha1.RootDeviceHints{HCTL: "0:0:0:x"} }), "image.rootDevice.hctl", "host:channel:target:lun"},
		{"disk with its folder", image(func(i *v1alpha1.Image) { i.RootDevice = &v1alpha1.RootDeviceHints{Name: "/dev/sda"} }), "image.rootDevice.name", "without /dev/"},
		{"kernel missing", func(s spec) { s.Boot.Kernel, s.Boot.Initrds = v1alpha1.Artifact{}, nil }, "boot", "kernel or ipxeTemplate is required"},
		{"initrds without a kernel", func(s spec) { s.Boot.Kernel, s.Boot.IPXETemplate = v1alpha1.Artifact{}, "#!ipxe\n" }, "boot", "initrds require a kernel"},
		{"iPXE template without its first line", template("echo\n#!ipxe\n"), "boot.ipxeTemplate", "the first line must be #!ipxe"},
		{"iPXE template whose first line goes on", template("#!ipxe script\n"), "boot.ipxeTemplate", "the first line must be #!ipxe"},
		{"iPXE template too long", template("#!ipxe\n" + strings.Repeat("#", 16<<10)), "boot.ipxeTemplate", "Too long"},
		{"kernel is no URL", kernel("/srv/kernel"), url, wantURL},
		{"kernel over FTP", kernel("ftp://192.0.2.1/kernel"), url, wantURL},
		{"kernel from a file", kernel("file:///srv/kernel"), url, wantURL},
		{"kernel without a host", kernel("http:///kernel"), url, wantURL},
		{"kernel with a port only", kernel("http://:80/kernel"), url, wantURL},
		{"kernel with credentials", kernel("https://user:secret@192.0.2.1/kernel"), url, wantURL},
		{"kernel with a space", kernel("http://192.0.2.1/a kernel"), url, wantURL},
		{"kernel with a newline", kernel("http://192.0.2.1/kernel\n"), url, wantURL},
		{"initrd over FTP", func(s spec) { s.Boot.Initrds[0].URL = "ftp://192.0.2.1/initrd" }, "boot.initrds[0].url", wantURL},
		{"initrd without a checksum", func(s spec) { s.Boot.Initrds[0].Checksum = "" }, "boot.initrds[0].checksum", "Required value"},

		{"checksum missing", sum(""), checksum, "Required value"},
		{"checksum without its kind", sum(strings.Repeat("0a", 32)), checksum, wantSum},
		{"checksum is MD5", sum("md5:" + strings.Repeat("0a", 16)), checksum, wantSum},
		{"checksum in upper case", sum("sha256:" + strings.Repeat("0A", 32)), checksum, wantSum},
		{"checksum too short", sum("sha256:" + strings.Repeat("0a", 31)), checksum, wantSum},
		{"checksum of the other length", sum("sha512:" + strings.Repeat("0a", 32)), checksum, wantSum},
		{"checksum with a newline", sum(sha256 + "\n"), checksum, wantSum},

		{"command line of two lines", line("quiet\nboot"), command, wantLine},
		{"command line ending in a newline", line("quiet\n"), command, wantLine},
		{"command line with a tab", line("quiet\tsplash"), command, wantLine},
		{"command line not in ASCII", line("name=é"), command, wantLine},
		{"command line with a variable of the boot loader", line("ip=${net0/ip}"), command, "the boot loader would expand it"},
		{"command line with a second command", line("quiet ; shell"), command, wantWord},
		{"command line with an alternative", line("quiet ||"), command, wantWord},
		{"command line with a condition", line("&& quiet"), command, wantWord},
		{"command line with a comment", line("quiet #1"), command, wantWord},
		{"command line with a seed at its start", line("ds=nocloud quiet"), command, wantDS},
		{"command line with a seed", line("quiet ds=nocloud;s=http://192.0.2.9/"), command, wantDS},

		{"persistence missing", func(s spec) { s.Boot.Persistence = "" }, "boot.persistence", "Required value"},
		{"persistence unknown", func(s spec) { s.Boot.Persistence = "Disk" }, "boot.persistence", `supported values: "Installed", "Ephemeral"`},

		{"selector empty", func(s spec) { s.HostSelector = &v1alpha1.HostSelector{} }, "hostSelector", "should have at least 1 properties"},
		{"label with a bad key", label("-rack", "a"), labels, wantKey},
		{"label with an empty key", label("", "a"), labels, wantKey},
		{"label with an empty prefix", label("/rack", "a"), labels, wantKey},
		{"label with two slashes", label("example.com/rack/row", "a"), labels, wantKey},
		{"label with a key too long", label(strings.Repeat("a", 318), "a"), labels, "at most 317 characters"},
		{"label with a name too long", label(strings.Repeat("a", 64), "a"), labels, "at most 63 characters"},
		{"label with a prefix too long", label(strings.Repeat("a", 254)+"/a", "a"), labels, "253 of them before the slash"},
		{"label with an empty part in its prefix", label("example..com/rack", "a"), labels, wantKey},
		{"label with a bad value", label("rack", "-a"), labels + "[rack]", "must be a label value"},
		{"label with a value of two words", label("rack", "a 1"), labels + "[rack]", "must be a label value"},
		{"label with a value too long", label("rack", strings.Repeat("a", 64)), labels + ".rack", "Too long"},
		{"expression with a bad key", expr("ra ck", "Exists"), one + ".key", wantKey},
		{"expression with a bad prefix", expr("Example.com/rack", "Exists"), one + ".key", wantKey},
		{"expression with a name too long", expr("example.com/"+strings.Repeat("a", 64), "Exists"), one + ".key", "at most 63 characters"},
		{"expression with a prefix too long", expr(strings.Repeat("a", 254)+"/a", "Exists"), one + ".key", "at most 253 characters before the slash"},
		{"expression with a bad operator", expr("rack", "Equals", "a"), one + ".operator", `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		{"expression with a bad value", expr("rack", "In", "a/b"), one + ".values[0]", "must be a label value"},
		{"In without values", expr("rack", "In"), one, wantVals},
		{"NotIn without values", expr("rack", "NotIn"), one, wantVals},
		{"Exists with values", expr("rack", "Exists", "a"), one, wantVals},
		{"DoesNotExist with values", expr("rack", "DoesNotExist", "a"), one, wantVals},

		{"memory of nothing", func(s spec) { s.Hardware.Memory = new(resource.MustParse("0")) }, "hardware.memory", "must be greater than 0"},
		{"memory below nothing", func(s spec) { s.Hardware.Memory = new(resource.MustParse("-64Gi")) }, "hardware.memory", "must be greater than 0"},
		{"disk of nothing", func(s spec) { s.Hardware.Disk = new(resource.MustParse("0Gi")) }, "hardware.disk", "must be greater than 0"},
		{"disks of nothing", func(s spec) { s.Hardware.Disks = []v1alpha1.DiskRequirement{{MinSize: new(resource.MustParse("0"))}} }, "hardware.disks[0].minSize", "must be greater than 0"},
		{"too many disks", func(s spec) { s.Hardware.Disks = []v1alpha1.DiskRequirement{{Count: 65}} }, "hardware.disks[0].count", "should be less than or equal to 64"},
		{"links of no speed", func(s spec) { s.Hardware.NICs = &v1alpha1.NICRequirement{Count: 2} }, "hardware.nics.minSpeedMbps", "Required value"},
		{"a GPU by name", func(s spec) { s.Hardware.GPUs = &v1alpha1.GPURequirement{Vendor: "A100"} }, "hardware.gpus.vendor", "must be a PCI ID: 4 hexadecimal digits in lower case"},
		{"no switch", func(s spec) { s.Hardware.Switches = []string{""} }, "hardware.switches[0]", "should be at least 1 chars long"},
		{"no processors", func(s spec) { s.Hardware.CPU = -1 }, "hardware.cpu", "should be greater than or equal to 1"},
		{"hardware of an unknown architecture", func(s spec) { s.Hardware.Architecture = "x86_64" }, "hardware.architecture", `supported values: "amd64", "arm64"`},
	}
}

func validImage() *v1alpha1.Image {
	return &v1alpha1.Image{URL: "https://images.example.com/debian.qcow2", Checksum: "sha256:" + strings.Repeat("0", 64)}
}

func TestMachineRefused(t *testing.T) {
	var cases []refused[*v1alpha1.BareMetalMachine]
	for _, c := range machineRules() {
		change := func(m *v1alpha1.BareMetalMachine) { c.change(&m.Spec) }
		cases = append(cases, refused[*v1alpha1.BareMetalMachine]{c.name, change, strings.TrimSuffix("spec."+c.field, "."), c.remedy})
	}
	refuse(t, validMachine, cases)
}

func TestMachineTemplateRefused(t *testing.T) {
	var cases []refused[*v1alpha1.BareMetalMachineTemplate]
	for _, c := range machineRules() {
		change := func(m *v1alpha1.BareMetalMachineTemplate) { c.change(&m.Spec.Template.Spec) }
		cases = append(cases, refused[*v1alpha1.BareMetalMachineTemplate]{c.name, change, strings.TrimSuffix("spec.template.spec."+c.field, "."), c.remedy})
	}
	provisioned := func(m *v1alpha1.BareMetalMachineTemplate) { m.Spec.Template.Spec.ProviderID = "baremetal://dc/h/m" }
	cases = append(cases, refused[*v1alpha1.BareMetalMachineTemplate]{"a provider ID", provisioned, "spec.template", "the provider sets it on each machine"})
	refuse(t, validMachineTemplate, cases)
}

func TestMachineAccepted(t *testing.T) {
	type machine = *v1alpha1.BareMetalMachine
	pick := func(s v1alpha1.HostSelector) func(machine) { return func(m machine) { m.Spec.HostSelector = &s } }
	kernel := func(url string) func(machine) { return func(m machine) { m.Spec.Boot.Kernel.URL = url } }
	accept(t, validMachine, []accepted[machine]{
		{"SHA-512", func(m machine) { m.Spec.Boot.Kernel.Checksum = sha512 }},
		{"an iPXE template", func(m machine) { m.Spec.Boot.IPXETemplate = "#!ipxe\nchain {{ .SeedURL }}user-data\n" }},
		{"an iPXE template and nothing else", func(m machine) {
			m.Spec.Boot = v1alpha1.BootSource{IPXETemplate: "#!ipxe\r\nexit 1", Persistence: v1alpha1.PersistenceInstalled}
		}},
		{"kernel at an IPv6 address", kernel("http://[2001:db8::1]:8080/kernel")},
		{"kernel with an @ in its path", kernel("https://images.example.com/kernel@6.12")},
		{"kernel with a query", kernel("https://images.example.com/?file=kernel")},
		{"sizes", func(m machine) {
			m.Spec.Hardware.Memory, m.Spec.Hardware.Disk = new(resource.MustParse("64Gi")), new(resource.MustParse("400000000000"))
		}},
		{"no initrds and no command line", func(m machine) { m.Spec.Boot.Initrds, m.Spec.Boot.CommandLine = nil, "" }},
		{"a command line with words that look alike", func(m machine) { m.Spec.Boot.CommandLine = "rounds=3 $ {x} a;b&&c||d e#f -- g" }},
		{"an image", func(m machine) { m.Spec.Boot, m.Spec.Image = v1alpha1.BootSource{}, validImage() }},
		{"an image in a registry", func(m machine) {
			m.Spec.Boot, m.Spec.Image = v1alpha1.BootSource{}, validImage()
			m.Spec.Image.URL, m.Spec.Image.PullSecret = "oci://[2001:db8::1]:5000/images/debian:13", "pull"
		}},
		{"an image by digest", func(m machine) {
			m.Spec.Boot, m.Spec.Image = v1alpha1.BootSource{}, validImage()
			m.Spec.Image.URL = "oci://registry.example.com/debian@sha256:" + strings.Repeat("0", 64)
		}},
		{"ephemeral", func(m machine) { m.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral }},
		{"labels", pick(v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{
			"rack": "A-1", "example.com/row_2": "", strings.Repeat("a.", 126) + "a/" + strings.Repeat("B", 63): "1",
		}})},
		{"expressions", pick(v1alpha1.HostSelector{MatchExpressions: []v1alpha1.HostSelectorRequirement{
			{Key: "rack", Operator: metav1.LabelSelectorOpIn, Values: []v1alpha1.LabelValue{"a-1", ""}},
			{Key: "example.com/rack", Operator: metav1.LabelSelectorOpNotIn, Values: []v1alpha1.LabelValue{"b"}},
			{Key: "gpu", Operator: metav1.LabelSelectorOpExists},
			{Key: "broken", Operator: metav1.LabelSelectorOpDoesNotExist},
		}})},
	})
}

func TestProviderIDStays(t *testing.T) {
	g := NewWithT(t)
	m := validMachine()
	m.Namespace, m.Name = env.Namespace(t), "m"
	g.Expect(env.Client.Create(t.Context(), m)).To(Succeed())
	m.Spec.ProviderID = "baremetal://ns/h/m"
	g.Expect(env.Client.Update(t.Context(), m)).To(Succeed())
	m.Labels = map[string]string{"rack": "a"}
	g.Expect(env.Client.Update(t.Context(), m)).To(Succeed())
	for _, id := range []string{"baremetal://ns/other/m", ""} {
		changed := m.DeepCopy()
		changed.Spec.ProviderID = id
		expectRefused(t, env.Client.Update(t.Context(), changed), "spec", "providerID cannot be changed: replace the Machine")
	}
}

func TestClusterRefused(t *testing.T) {
	const endpoint = "spec.controlPlaneEndpoint"
	type cluster = *v1alpha1.BareMetalCluster
	at := func(host string, port int32) func(cluster) {
		return func(c cluster) { c.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: host, Port: port} }
	}
	refuse(t, validCluster, []refused[cluster]{
		{"host without a port", at("192.0.2.20", 0), endpoint, "set both host and port"},
		{"port without a host", at("", 6443), endpoint, "set both host and port"},
		{"host is a URL", at("https://api.example.com", 6443), endpoint + ".host", "must be a hostname or an IP address, not a URL"},
		{"host with a port", at("api.example.com:6443", 6443), endpoint + ".host", "without a port"},
		{"host with a space", at("api.example.com ", 6443), endpoint + ".host", "must be a hostname or an IP address"},
		{"port out of range", at("192.0.2.20", 70000), endpoint + ".port", "should be less than or equal to 65535"},
		{"port below range", at("192.0.2.20", -1), endpoint + ".port", "should be greater than or equal to 1"},
	})
}

// clusterDomains sets the failure domains of a cluster.
func clusterDomains(domains ...clusterv1.FailureDomain) func(*v1alpha1.BareMetalCluster) {
	return func(c *v1alpha1.BareMetalCluster) { c.Spec.FailureDomains = domains }
}

func TestClusterFailureDomainsRefused(t *testing.T) {
	type cluster = *v1alpha1.BareMetalCluster
	const domains = "spec.failureDomains"
	refuse(t, validCluster, []refused[cluster]{
		{"failure domains that are there and none", func(c cluster) { c.Spec.FailureDomains = []clusterv1.FailureDomain{{}} }, domains + "[0].name", "Required value"},
		{"two failure domains of one name", clusterDomains(clusterv1.FailureDomain{Name: "a"}, clusterv1.FailureDomain{Name: "a"}), domains + "[1]", "Duplicate value"},
		{"a failure domain with a name too long", clusterDomains(clusterv1.FailureDomain{Name: strings.Repeat("a", 257)}), domains + "[0].name", "Too long"},
		{"too many failure domains", func(c cluster) {
			for i := range 101 {
				c.Spec.FailureDomains = append(c.Spec.FailureDomains, clusterv1.FailureDomain{Name: fmt.Sprintf("rack-%d", i)})
			}
		}, domains, "must have at most 100 items"},
	})
}

// TestEndpointStays: an endpoint can be set later, but cannot be changed or removed.
func TestEndpointStays(t *testing.T) {
	g := NewWithT(t)
	c := validCluster()
	endpoint := c.Spec.ControlPlaneEndpoint
	c.Namespace, c.Name, c.Spec.ControlPlaneEndpoint = env.Namespace(t), "c", v1alpha1.APIEndpoint{}
	g.Expect(env.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.ControlPlaneEndpoint = endpoint
	g.Expect(env.Client.Update(t.Context(), c)).To(Succeed())
	clusterDomains(clusterv1.FailureDomain{Name: "rack-1", ControlPlane: new(true)})(c)
	g.Expect(env.Client.Update(t.Context(), c)).To(Succeed())
	const remedy = "controlPlaneEndpoint cannot be changed once it is set, because the certificates and kubeconfigs of the cluster contain it. Create a new Cluster instead"
	for _, other := range []v1alpha1.APIEndpoint{{Host: "192.0.2.21", Port: 6443}, {Host: "192.0.2.20", Port: 443}, {}} {
		changed := c.DeepCopy()
		changed.Spec.ControlPlaneEndpoint = other
		expectRefused(t, env.Client.Update(t.Context(), changed), "spec", remedy)
	}
	bare := c.DeepCopy()
	bare.Spec = v1alpha1.BareMetalClusterSpec{}
	expectRefused(t, env.Client.Update(t.Context(), bare), "spec", remedy)
	expectRefused(t, env.Client.Patch(t.Context(), c.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":null}`))), "spec", remedy)
}

// TestClusterTemplateRefused: the rules of a cluster also apply in a template.
func TestClusterTemplateRefused(t *testing.T) {
	type template = *v1alpha1.BareMetalClusterTemplate
	valid := func() template {
		return &v1alpha1.BareMetalClusterTemplate{Spec: v1alpha1.BareMetalClusterTemplateSpec{Template: v1alpha1.BareMetalClusterTemplateResource{Spec: validCluster().Spec}}}
	}
	accept(t, valid, []accepted[template]{
		{"without an endpoint", func(c template) {
			c.Spec.Template.Spec = v1alpha1.BareMetalClusterSpec{FailureDomains: []clusterv1.FailureDomain{{Name: "a"}}}
		}},
	})
	refuse(t, valid, []refused[template]{
		{"host without a port", func(c template) { c.Spec.Template.Spec.ControlPlaneEndpoint.Port = 0 }, "spec.template.spec.controlPlaneEndpoint", "set both host and port"},
		{"host is a URL", func(c template) { c.Spec.Template.Spec.ControlPlaneEndpoint.Host = "https://a" }, "spec.template.spec.controlPlaneEndpoint.host", "not a URL"},
	})
}

func TestClusterAccepted(t *testing.T) {
	type cluster = *v1alpha1.BareMetalCluster
	at := func(host string) func(cluster) { return func(c cluster) { c.Spec.ControlPlaneEndpoint.Host = host } }
	accept(t, validCluster, []accepted[cluster]{
		{"without an endpoint", func(c cluster) { c.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{} }},
		{"a name", at("api.example.com")},
		{"IPv6", at("2001:db8::20")},
	})
}

func TestDefaults(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	host := validHost()
	host.Namespace, host.Name = namespace, "h"
	g.Expect(env.Client.Create(t.Context(), host)).To(Succeed())
	g.Expect(host.Spec.BootMode).To(Equal(v1alpha1.BootModeUEFI))
	g.Expect(host.Spec.Architecture).To(Equal(v1alpha1.ArchitectureAMD64))
	g.Expect(host.Spec.Power).To(BeEmpty(), "the power is left as it is found")
	g.Expect(host.Spec.CleaningPolicy).To(BeEmpty(), "it depends on the machine")

	machine := validMachine()
	machine.Namespace, machine.Name = namespace, "m"
	machine.Spec.Hardware.CPU = 4
	g.Expect(env.Client.Create(t.Context(), machine)).To(Succeed())
	g.Expect(machine.Spec.Hardware.Architecture).To(Equal(v1alpha1.ArchitectureAMD64))

	// A template has the defaults of the objects that are created from it, so that the defaults are not a difference later.
	template := validMachineTemplate()
	template.Namespace, template.Name = namespace, "t"
	template.Spec.Template.Spec.Hardware.CPU = 4
	template.Spec.Template.Spec.Tolerations = []v1alpha1.HostToleration{{Key: "gpu"}}
	g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
	g.Expect(template.Spec.Template.Spec.Hardware.Architecture).To(Equal(v1alpha1.ArchitectureAMD64))
	g.Expect(template.Spec.Template.Spec.Tolerations[0].Operator).To(Equal(corev1.TolerationOpEqual))

	cluster := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
	g.Expect(env.Client.Create(t.Context(), cluster)).To(Succeed())
	g.Expect(cluster.Spec).To(BeZero(), "a cluster has no defaults")
}

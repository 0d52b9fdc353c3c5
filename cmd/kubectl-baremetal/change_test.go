package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// TestConsent: nothing changes without a reason and consent. What stops a machine needs the name of the host, and a selection the number of hosts.
func TestConsent(t *testing.T) {
	hold := v1alpha1.PowerHoldPrefix + "anna"
	for name, test := range map[string]struct {
		args    []string
		answers string
		code    int
		err     string
		changed bool
	}{
		"no reason":                        {args: []string{"maintenance", "start", "server-1", "--yes"}, code: 2, err: "a change needs a reason"},
		"no consent":                       {args: []string{"maintenance", "start", "server-1", "--reason", "fan"}, code: 2, err: "use --yes"},
		"yes":                              {args: []string{"maintenance", "start", "server-1", "--reason", "fan", "--yes"}, changed: true},
		"typed":                            {args: []string{"maintenance", "start", "server-1"}, answers: "fan\ny\n", changed: true},
		"typed no":                         {args: []string{"maintenance", "start", "server-1"}, answers: "fan\nn\n", code: 1, err: "nothing was changed"},
		"the answers end":                  {args: []string{"maintenance", "start", "server-1"}, answers: "fan\n", code: 2, err: "the input ended"},
		"a machine stops: yes":             {args: []string{"power", "off", "server-1", "--reason", "fan", "--yes", "--wait=0"}, code: 2, err: "use --yes-its-claimed server-1"},
		"a machine stops: name":            {args: []string{"power", "off", "server-1", "--reason", "fan", "--yes-its-claimed", "server-1", "--wait=0"}, changed: true},
		"a machine stops: wrong name":      {args: []string{"power", "off", "server-1", "--reason", "fan", "--yes-its-claimed", "server-2", "--wait=0"}, code: 2, err: "use --yes-its-claimed server-1"},
		"a machine stops: typed":           {args: []string{"power", "off", "server-1", "--wait=0"}, answers: "fan\nserver-1\n", changed: true},
		"a machine stops: typed otherwise": {args: []string{"power", "off", "server-1", "--wait=0"}, answers: "fan\ny\n", code: 1, err: "nothing was changed"},
		"a selection: yes":                 {args: []string{"maintenance", "start", "-l", "rack=r1", "--reason", "fan", "--yes"}, code: 2, err: "use --hosts 2"},
		"a selection: number":              {args: []string{"maintenance", "start", "-l", "rack=r1", "--reason", "fan", "--hosts", "2"}, changed: true},
		"a selection: wrong number":        {args: []string{"maintenance", "start", "-l", "rack=r1", "--reason", "fan", "--hosts", "3"}, code: 2, err: "use --hosts 2"},
		"a selection with a machine":       {args: []string{"power", "off", "-l", "rack=r1", "--reason", "fan", "--hosts", "2", "--wait=0"}, err: "1 of these hosts run machines, which STOP", changed: true},
		"a selection of nothing":           {args: []string{"maintenance", "start", "-l", "rack=r9", "--reason", "fan", "--hosts", "0"}, code: 2, err: "has the labels rack=r9"},
		"one name is wrong":                {args: []string{"maintenance", "start", "server-1", "server-9", "--reason", "fan", "--yes"}, code: 2, err: `there is no BareMetalHost "server-9"`},
		"one host refuses":                 {args: []string{"power", "cycle", "server-1", "server-2", "--reason", "fan", "--wait=0"}, code: 1, err: "server-2 has no machine"},
		"a name and a selector":            {args: []string{"power", "off", "server-1", "-l", "rack=r1", "--reason", "fan"}, code: 2, err: "cannot be mixed"},
		"a name twice":                     {args: []string{"power", "off", "server-1", "server-1", "--reason", "fan"}, code: 2, err: "named twice"},
		"no verb":                          {args: []string{"maintenance", "server-1"}, code: 2, err: "write kubectl baremetal maintenance start server-1"},
		"no name":                          {args: []string{"power", "off", "--reason", "fan"}, code: 2, err: "name the hosts"},
		"dry run":                          {args: []string{"power", "off", "server-1", "--dry-run"}},
		"dry run by the server":            {args: []string{"power", "off", "server-1", "--dry-run=server", "--reason", "fan"}},
		"a wrong dry run":                  {args: []string{"power", "off", "server-1", "--dry-run=yes"}, code: 2, err: "use none, client or server"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(runningHost("server-1"), freeHost("server-2"), machine())
			b.answers = test.answers
			got := b.run(t, test.args...)
			g.Expect(got.code).To(Equal(test.code), got.err)
			g.Expect(got.err).To(ContainSubstring(test.err))
			h := b.host(t, "server-1")
			changed := h.Spec.Maintenance != nil || h.Annotations[hold] != ""
			g.Expect(changed).To(Equal(test.changed))
			if !test.changed {
				g.Expect(b.requests(t)).To(BeEmpty())
				return
			}
			g.Expect(b.requests(t)).To(ContainElement(HaveSuffix(": anna: fan")))
			g.Expect(got.out).To(ContainSubstring("baremetalhost.infrastructure.cluster.x-k8s.io/server-1 changed\n"))
			if h.Spec.Maintenance != nil {
				g.Expect(h.Spec.Maintenance.Reason).To(Equal("anna: fan"))
			} else {
				g.Expect(h.Annotations[hold]).To(Equal("anna: fan"))
			}
		})
	}
}

// TestRecordedBy: who asks is what the API server says; if it does not, the command says so and continues. Nothing changes if that cannot be recorded.
func TestRecordedBy(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"))
	b.forbidden = []string{"Event"}
	got := b.run(t, "maintenance", "start", "server-1", "--reason", "fan", "--yes")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(ContainSubstring("server-1: nothing was changed: the event that says who asks for it could not be written"))
	g.Expect(b.host(t, "server-1").Spec.Maintenance).To(BeNil())
	got = b.run(t, "erase", "server-1", "--policy", "Clear", "--reason", "fan", "--yes-erase", "server-1")
	g.Expect(got.code).To(Equal(1))
	var requests v1alpha1.BareMetalErasureRequestList
	g.Expect(b.client.List(t.Context(), &requests)).To(Succeed())
	g.Expect(requests.Items).To(BeEmpty())

	b.forbidden = []string{"SelfSubjectReview"}
	got = b.run(t, "maintenance", "start", "server-1", "--reason", "fan", "--yes")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.err).To(ContainSubstring("the API server does not say who you are: admin is recorded"))
	g.Expect(b.host(t, "server-1").Spec.Maintenance.Reason).To(Equal("admin: fan"))

	got = b.run(t, "maintenance", "end", "server-1", "--reason", "done", "--yes", "-o", "name")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(Equal("baremetalhost.infrastructure.cluster.x-k8s.io/server-1\n"))
	got = b.run(t, "maintenance", "end", "server-1", "--reason", "done", "--yes")
	g.Expect(got.code).To(Equal(0))
	g.Expect(got.err).To(ContainSubstring("nothing to do: server-1 is not in maintenance"))

	b.forbidden = []string{why.KindHost}
	g.Expect(b.run(t, "maintenance", "start", "server-1", "--reason", "fan", "--yes").code).To(Equal(2))
}

// TestAnnouncedErasures: the end of a maintenance or a quarantine names the erasure that begins then, or continues.
func TestAnnouncedErasures(t *testing.T) {
	request := func(name, host string, boots int32, expires time.Duration) *v1alpha1.BareMetalErasureRequest {
		meta := metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))}
		return &v1alpha1.BareMetalErasureRequest{ObjectMeta: meta, Spec: v1alpha1.BareMetalErasureRequestSpec{
			HostName: host, HostUID: "uid-1", SerialNumber: "SN-1", BootsBefore: &boots, Policy: wire.PolicyClear, ExpireTime: metav1.NewTime(now.Add(expires)),
		}}
	}
	begun := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "server-1"}, Spec: v1alpha1.BareMetalBootSpec{
		Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeClean, ClaimID: "waits", ErasureRequest: &v1alpha1.BootErasureRequest{Name: "waits"},
	}}
	for name, obstacle := range map[string]func(*v1alpha1.BareMetalHost){
		"maintenance": func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "bob: fan"} },
		"quarantine": func(h *v1alpha1.BareMetalHost) {
			h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "SetByUser", Message: "bob: fan"}
		},
	} {
		g := NewWithT(t)
		h := freeHost("server-1")
		obstacle(h)
		objects := []client.Object{request("waits", "server-1", 0, time.Hour), request("is-over", "server-1", 0, -time.Hour), request("was-booted", "server-1", 5, time.Hour), request("other", "server-2", 0, time.Hour)}
		b := newBench(append(objects, h.DeepCopy())...)
		got := b.run(t, name, "end", "server-1", "--dry-run")
		g.Expect(got.err).To(ContainSubstring("  - BareMetalErasureRequest waits: ALL DATA on the disks of server-1 is erased (Clear) when nothing else keeps the host from it.\n"))
		g.Expect(strings.Count(got.err, "BareMetalErasureRequest")).To(Equal(1), got.err)
		b.forbidden = []string{why.KindErasureRequest}
		g.Expect(b.run(t, name, "end", "server-1", "--dry-run").err).To(ContainSubstring("it is unknown whether an erasure of the disks waits"))

		h.Spec.ProviderState.Boots = 1
		b = newBench(append(objects, h.DeepCopy(), begun.DeepCopy())...)
		g.Expect(b.run(t, name, "end", "server-1", "--dry-run").err).To(ContainSubstring("BareMetalErasureRequest waits: ALL DATA"))
	}
}

// TestConflict: a host whose status changed meanwhile is changed all the same, and one of which something else would be done is not.
func TestConflict(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*v1alpha1.BareMetalHost)
		code      int
	}{
		"its status": {func(h *v1alpha1.BareMetalHost) { h.Status.Power = v1alpha1.PoweringOff }, 0},
		"its claim":  {func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(runningHost("server-1"), machine())
			once := false
			b.client = interceptor.NewClient(b.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					if !once {
						once = true
						h := b.host(t, "server-1") //nolint:contextcheck // that of the test
						test.meanwhile(h)
						if err := c.Update(ctx, h); err != nil {
							return err
						}
					}
					return c.Patch(ctx, o, patch, options...)
				},
			})
			got := b.run(t, "maintenance", "start", "server-1", "--reason", "fan", "--yes")
			g.Expect(got.code).To(Equal(test.code), got.err)
			g.Expect(b.host(t, "server-1").Spec.Maintenance != nil).To(Equal(test.code == 0))
		})
	}
}

// TestErase: the request fits the host as it is, and says who asked for it.
func TestErase(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"), runningHost("server-2"))
	got := b.run(t, "erase", "server-1", "--policy", "Clear", "--reason", "bought used")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(And(ContainSubstring("ALL DATA of its disks is erased (Clear)"), ContainSubstring("use --yes-erase server-1")))
	got = b.run(t, "erase", "server-1", "--policy", "Clear", "--reason", "bought used", "--yes-erase", "server-1")
	g.Expect(got.code).To(Equal(0), got.err)
	var list v1alpha1.BareMetalErasureRequestList
	g.Expect(b.client.List(t.Context(), &list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
	g.Expect(list.Items[0].Annotations).To(HaveKeyWithValue(v1alpha1.RequestedByAnnotation, "anna: bought used"))
	g.Expect(list.Items[0].Spec.SerialNumber).To(Equal("SN-1"))
	g.Expect(b.requests(t)).To(ConsistOf("ErasureRequested: anna: bought used"))

	for says, args := range map[string][]string{
		`BareMetalMachine "m" has server-2`: {"server-2", "--policy", "Clear"},
		"use Metadata, Clear or Purge":      {"server-1", "--policy", "None"},
		`serial number "SN-1", not "SN-2"`:  {"server-1", "--policy", "Clear", "--serial-number", "SN-2"},
		"between 1s and 168h0m0s":           {"server-1", "--policy", "Clear", "--expires-in", "169h"},
	} {
		got := b.run(t, append([]string{"erase", "--reason", "x", "--yes-erase", "server-1"}, args...)...)
		g.Expect(got.code).NotTo(Equal(0))
		g.Expect(got.err).To(ContainSubstring(says))
	}
	g.Expect(b.client.List(t.Context(), &list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
}

// TestErasures: records are a table, certificates, or the file that bmcctl verifies.
func TestErasures(t *testing.T) {
	g := NewWithT(t)
	end := metav1.NewTime(now.Add(-48 * 3600 * 1e9))
	record := &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "e", Labels: map[string]string{v1alpha1.ErasureHostLabel: erasure.HostLabel("server-1")}}}
	record.Spec = v1alpha1.BareMetalErasureSpec{
		Namespace: "prod", HostName: "server-1", ClaimID: "c", BootNumber: 4, MachineName: "m", Server: v1alpha1.ErasedServer{SerialNumber: "SN-1"},
		Report: v1alpha1.ErasureReport{Policy: wire.PolicyClear, StartTime: end, EndTime: end, Disks: []v1alpha1.ErasedDisk{{}, {}}},
	}
	record.Spec.Report.Disks[0].Outcome = wire.Erased
	b := newBench(record)
	got := b.run(t, "erasures", "server-1")
	g.Expect(got.out).To(Equal("HOST       SERIAL   POLICY   DISKS   ERASED   AGE   MACHINE\nserver-1   SN-1     Clear    2       1        2d    m\n"))
	g.Expect(b.run(t, "erasures", "-o", "certificate").out).To(ContainSubstring("SN-1"))
	document, err := erasure.ParseDocument([]byte(b.run(t, "erasures", "-A", "-o", "export").out))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(document.Certificates).To(HaveLen(1))
	g.Expect(b.run(t, "erasures", "-o", "yaml").out).To(ContainSubstring("kind: BareMetalErasureList"))
	got = b.run(t, "erasures", "server-2")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring(`the host "server-2" in the namespace "prod" has no record of an erasure`))
	b.forbidden = []string{"BareMetalErasure"}
	g.Expect(b.run(t, "erasures").err).To(ContainSubstring("not permitted"))
}

// TestDrain: kubectl drains the Node in the workload cluster, and a power hold follows if that was asked for.
func TestDrain(t *testing.T) {
	g := NewWithT(t)
	b := newBench(runningHost("server-1"), freeHost("server-2"), machine(), workloadSecret())
	got := b.run(t, "drain", "start", "server-1", "--reason", "fan", "--yes")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(b.kubectl).To(HaveLen(1))
	g.Expect(strings.Join(b.kubectl[0][2:], " ")).To(Equal("drain node-1 --ignore-daemonsets --delete-emptydir-data --timeout 10m0s"))
	g.Expect(b.kubectl[0][1]).NotTo(BeAnExistingFile()) // it was removed
	g.Expect(b.host(t, "server-1").Annotations).To(BeEmpty())

	b.kubectl = nil
	got = b.run(t, "drain", "start", "server-1", "--reason", "fan", "--power-off", "--yes", "--timeout", "1ms")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring("use --yes-its-claimed server-1"))
	g.Expect(b.kubectl).To(BeEmpty())
	got = b.run(t, "drain", "start", "server-1", "--reason", "fan", "--power-off", "--yes-its-claimed", "server-1", "--timeout", "1ms")
	g.Expect(got.code).To(Equal(1)) // nothing powers the server off here
	g.Expect(got.err).To(ContainSubstring("not done after 1ms"))
	g.Expect(b.host(t, "server-1").Annotations).To(HaveKeyWithValue(v1alpha1.PowerHoldPrefix+"anna", "anna: fan"))

	got = b.run(t, "drain", "start", "server-2", "--reason", "fan", "--yes")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(ContainSubstring("has no machine"))
	b.forbidden = []string{"Secret"}
	got = b.run(t, "drain", "start", "server-1", "--reason", "fan", "--yes")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring("which is not permitted: use --workload-kubeconfig FILE"))
}

// TestDrainRunsNoProgramOfTenants: the kubeconfig in a Secret that a tenant may write names no program and no file of the operator's machine; one that the operator names may.
func TestDrainRunsNoProgramOfTenants(t *testing.T) {
	for field, user := range map[string]string{"exec": `{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}`, "tokenFile": `{tokenFile: /root/.kube/token}`} {
		for _, verb := range []string{"start", "end"} {
			for _, more := range [][]string{nil, {"--dry-run=server"}} {
				g := NewWithT(t)
				secret := workloadSecret()
				secret.Data["value"] = []byte(`{kind: Config, apiVersion: v1, users: [{name: u, user: ` + user + `}]}`)
				b := newBench(runningHost("server-1"), machine(), secret)
				got := b.run(t, append([]string{"drain", verb, "server-1", "--reason", "fan", "--yes"}, more...)...)
				g.Expect(got.code).To(Equal(2), got.out)
				g.Expect(got.err).To(And(ContainSubstring(`users["u"] has `+field), ContainSubstring("--workload-kubeconfig FILE")))
				g.Expect(b.kubectl).To(BeEmpty())
			}
		}
	}
}

// TestDrainsItsNode: a Node that is not that of the machine, such as one of another cluster with its name, is neither drained nor made schedulable.
func TestDrainsItsNode(t *testing.T) {
	const uuid, other = "4c4c4544-0034-4b10-8057-b4c04f4d5031", "4c4c4544-0034-4b10-8057-b4c04f4d5032"
	for name, test := range map[string]struct {
		providerID, uuid string
		drained          bool
	}{
		"the provider ID of the machine":              {"baremetal://prod/server-1/m", other, true},
		"another provider ID":                         {"baremetal://prod/server-9/m", uuid, false},
		"no provider ID, the UUID of the server":      {"", uuid, true},
		"no provider ID, the UUID of another":         {"", other, false},
		"neither a provider ID nor the server's UUID": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := runningHost("server-1")
			h.Status.Hardware.SystemUUID = uuid
			b := newBench(h, machine())
			b.node.Spec.ProviderID, b.node.Status.NodeInfo.SystemUUID = test.providerID, test.uuid
			for _, verb := range []string{"start", "end"} {
				got := b.run(t, "drain", verb, "server-1", "--reason", "fan", "--yes", "--workload-kubeconfig", "file")
				if test.drained {
					g.Expect(got.code).To(Equal(0), got.err)
					continue
				}
				g.Expect(got.code).To(Equal(1))
				g.Expect(got.err).To(ContainSubstring(`the provider ID of BareMetalMachine m is "baremetal://prod/server-1/m": is the kubeconfig that of the cluster c?`))
				g.Expect(b.requests(t)).To(BeEmpty())
			}
			g.Expect(b.kubectl == nil).To(Equal(!test.drained))
		})
	}
}

// TestPowerStatus: the power, and what keeps the server off.
func TestPowerStatus(t *testing.T) {
	g := NewWithT(t)
	h := runningHost("server-1")
	h.Annotations = map[string]string{v1alpha1.PowerHoldPrefix + "bob": "bob: a disk", v1alpha1.PowerCyclePrefix + "anna": "anna: hangs"}
	b := newBench(h)
	g.Expect(b.run(t, "power", "status", "server-1").out).To(Equal(
		"NAME       POWER   OFF SINCE   SPEC   PHASE         BMC   LAST OPERATION   POWER HOLDS AND REQUESTS\n" +
			"server-1   On      -           -      Provisioned   -     -                a disk (bob); PowerCycle requested: anna: hangs\n"))
	g.Expect(b.run(t, "power", "status").code).To(Equal(0))
	g.Expect(b.run(t, "power", "status", "server-9").code).To(Equal(2))
}

// TestReport: the bundle has what helps, and nothing that identifies the server. What may not be read does not fail it.
func TestReport(t *testing.T) {
	g := NewWithT(t)
	h := runningHost("server-1")
	h.Spec.BMC = v1alpha1.BMC{Address: "redfish://192.0.2.10", CredentialsSecretName: "server-1-bmc"}
	h.Status.Hardware.SerialNumber = "CZ3104ABCD"
	m := machine()
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: why.KindMachine, Name: "m-1", UID: "u"}}
	b := newBench(h, m, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c"}}, &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m-1"}, Spec: clusterv1.MachineSpec{ClusterName: "c"},
	})
	b.forbidden = []string{"Event", "Pod"}
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	got := b.run(t, "report", "server-1", "--file", file)
	g.Expect(got.code).To(Equal(0), got.err)
	content := unpack(t, file)
	var all strings.Builder
	names := make([]string, 0, len(content))
	for name, text := range content {
		names = append(names, name[strings.Index(name, "/")+1:])
		all.WriteString(text)
	}
	g.Expect(names).To(ConsistOf("README.txt", "why.txt", "events.txt", "objects/baremetalhost-server-1.yaml", "objects/baremetalmachine-m.yaml",
		"objects/machine-m-1.yaml", "objects/cluster-c.yaml"))
	g.Expect(all.String()).To(And(Not(ContainSubstring("192.0.2.10")), Not(ContainSubstring("CZ3104ABCD")), ContainSubstring("redfish://ip-1"), ContainSubstring("Event: not permitted")))
	got = b.run(t, "report", "server-1", "--file", file)
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring("exists"))
}

// unpack returns the files of an archive.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	file, err := os.Open(name)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	g.Expect(err).NotTo(HaveOccurred())
	archive := tar.NewReader(compressed)
	content := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		g.Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(archive)
		g.Expect(err).NotTo(HaveOccurred())
		content[header.Name] = string(text)
	}
}

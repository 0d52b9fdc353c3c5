package settings

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

// TestPlanOfSecrets: a profile sets no password, whatever type the BMC gives it, and no plan has the value of one.
func TestPlanOfSecrets(t *testing.T) {
	r, err := ParseRegistry([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"SHA256SetupPassword","Type":"String"},{"AttributeName":"SHA256SetupPasswordSalt","Type":"String"},
		{"AttributeName":"IscsiDev1Con1ChapSecret","Type":"String"},{"AttributeName":"WifiPassphrase","Type":"String"},{"AttributeName":"Key","Type":"Password"},
		{"AttributeName":"PasswordStatus","Type":"Enumeration","Value":[{"ValueName":"Unlocked"},{"ValueName":"Locked"}]}]}}`))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	current := Values{
		"SHA256SetupPassword": Text("hunter1"), "SHA256SetupPasswordSalt": Text("hunter1"), "IscsiDev1Con1ChapSecret": Text("hunter1"), "WifiPassphrase": Text("hunter1"), "Key": Text("hunter1"),
		"PasswordStatus": Text("Unlocked"),
	}
	for _, registry := range []*Registry{r, nil} {
		for name := range current {
			g := NewWithT(t)
			wished := NewPlan(Input{Wishes: wishes(name + "=hunter2"), Registry: registry, Current: current})
			pending := NewPlan(Input{Registry: registry, Current: current, Pending: Values{name: Text("hunter2")}})
			switch {
			case name == "PasswordStatus" && registry != nil:
				g.Expect(summary(NewPlan(Input{Wishes: wishes("PasswordStatus=Locked"), Registry: registry, Current: current}))).To(Equal("PasswordStatus:Unlocked>Locked"))
			case name != "Key" || registry != nil: // nothing but its type says that Key is one
				g.Expect(wished.Refusals).To(HaveExactElements(HaveField("Reason", ReasonPassword)), name)
				g.Expect(pending.Foreign).To(HaveExactElements(HaveField("Name", name)))
				g.Expect(fmt.Sprintf("%+v %+v", wished, pending)).NotTo(ContainSubstring("hunter"), name)
			}
		}
	}
}

// TestPlanSecureBoot: when Secure Boot may be changed.
func TestPlanSecureBoot(t *testing.T) {
	on, off := true, false
	microsoft := []string{"Microsoft Windows Production PCA 2011", "Microsoft Corporation UEFI CA 2011"}
	for name, test := range map[string]struct {
		in    SecureBootInput
		says  string // of the refusal; empty for a change
		same  bool
		notes int
	}{
		"no wish":                      {in: SecureBootInput{Reported: true}, same: true},
		"on already":                   {in: SecureBootInput{Want: &on, Reported: true, Enabled: true, Mode: setupMode}, same: true},
		"on":                           {in: SecureBootInput{Want: &on, Reported: true, Mode: "UserMode", KeysKnown: true, Authorities: microsoft}},
		"on, keys unknown":             {in: SecureBootInput{Want: &on, Reported: true}, notes: 1},
		"on, not reported":             {in: SecureBootInput{Want: &on}, says: "does not report"},
		"on, no keys":                  {in: SecureBootInput{Want: &on, Reported: true, Mode: setupMode}, says: "SetupMode"},
		"on, without the CA":           {in: SecureBootInput{Want: &on, Reported: true, KeysKnown: true, Authorities: microsoft[:1]}, says: "Microsoft Corporation UEFI CA 2011 or Microsoft UEFI CA 2023"},
		"on, disks to keep":            {in: SecureBootInput{Want: &on, Reported: true, KeepsDisks: true}, says: "KeptDisks"},
		"on, disks to keep, permitted": {in: SecureBootInput{Want: &on, Reported: true, KeepsDisks: true, MayLoseSealedDisks: true}, notes: 1},
		"on, boots by iPXE":            {in: SecureBootInput{Want: &on, Reported: true, BootsSigned: &off}, says: "Set spec.bootMode of the host to UEFISecureBoot"},
		"on, boots by shim":            {in: SecureBootInput{Want: &on, Reported: true, BootsSigned: &on}, notes: 1},
		"on already, boots by iPXE":    {in: SecureBootInput{Want: &on, Reported: true, Enabled: true, BootsSigned: &off}, same: true},
		"off, declared":                {in: SecureBootInput{Want: &off, Reported: true, Enabled: true, MayDisable: true, BootsSigned: &on}, says: "Set spec.bootMode of the host to UEFI"},
		"off, not declared":            {in: SecureBootInput{Want: &off, Reported: true, Enabled: true, MayDisable: true, BootsSigned: &off}},
		"off":                          {in: SecureBootInput{Want: &off, Reported: true, Enabled: true}, says: "add SecureBoot to spec.allow"},
		"off, permitted":               {in: SecureBootInput{Want: &off, Reported: true, Enabled: true, MayDisable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := NewPlan(Input{SecureBoot: test.in, Registry: testRegistry(t), Current: testValues()})
			g.Expect(plan.Notes).To(HaveLen(test.notes))
			if test.says != "" {
				g.Expect(plan.Refusals).To(HaveExactElements(HaveField("Message", ContainSubstring(test.says))))
				g.Expect(plan.SecureBoot).To(BeNil())
				return
			}
			g.Expect(plan.Blocked()).To(BeFalse())
			g.Expect(plan.SecureBoot == nil).To(Equal(test.same))
			g.Expect(plan.Reboots).To(Equal(map[bool]int{true: 0, false: 1}[test.same]))
			g.Expect(plan.Conforms()).To(Equal(test.same))
		})
	}
}

// TestPlanPendingSecureBoot: a staged change of Secure Boot is that of the profile, or one of somebody else.
func TestPlanPendingSecureBoot(t *testing.T) {
	on, off := true, false
	for name, test := range map[string]struct {
		in      SecureBootInput
		want    *SecureBootChange
		foreign string
		refused int
	}{
		"wished":              {in: SecureBootInput{Want: &on, Reported: true, Pending: &on}, want: &SecureBootChange{To: true, Pending: true}},
		"the opposite wished": {in: SecureBootInput{Want: &off, Reported: true, Pending: &on}, foreign: "Enabled"},
		"not wished":          {in: SecureBootInput{Reported: true, Enabled: true, Pending: &off}, foreign: "Disabled"},
		"refused":             {in: SecureBootInput{Want: &off, Reported: true, Enabled: true, Pending: &off}, foreign: "Disabled", refused: 1},
		"not reported":        {in: SecureBootInput{Pending: &on}, foreign: "Enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := NewPlan(Input{SecureBoot: test.in, Registry: testRegistry(t), Current: testValues()})
			g.Expect(plan.SecureBoot).To(Equal(test.want))
			g.Expect(plan.Refusals).To(HaveLen(test.refused))
			g.Expect(plan.Conforms()).To(BeFalse())
			if test.foreign == "" {
				g.Expect(plan.Foreign).To(BeEmpty())
				return
			}
			g.Expect(plan.Foreign).To(HaveExactElements(And(HaveField("Name", SecureBootName), HaveField("To", Text(test.foreign)), HaveField("Pending", true))))
		})
	}
}

package erasure

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Certificate is a certificate of sanitization with the fields of the sample in NIST SP 800-88 Rev. 2, as far as a program knows them. All of it follows from the
// signed statement. The fields that only people know, such as who takes responsibility, are absent: the text form of bmcctl has empty lines for them.
type Certificate struct {
	// Title and Standard name what this is. The policy Metadata is no sanitization by the standard, and its title says so.
	Title    string `json:"title"`
	Standard string `json:"standard,omitempty"`
	// Basis says who observed what is certified.
	Basis string `json:"basis"`
	// Host is the namespace and the name of the host, and Record the name of its BareMetalErasure.
	Host   string `json:"host"`
	Record string `json:"record"`
	// Server identifies the server. Machine is the machine that released it, with ProviderID and ClaimID.
	Server     v1alpha1.ErasedServer `json:"server"`
	Machine    string                `json:"machine,omitempty"`
	ProviderID string                `json:"providerID,omitempty"`
	ClaimID    string                `json:"claimID"`
	BootNumber int32                 `json:"bootNumber"`
	// Policy is the sanitization method that the host demanded: Metadata, Clear or Purge. Metadata is no method of NIST SP 800-88.
	Policy wire.ErasePolicy `json:"policy"`
	// StartTime, EndTime and RecordedTime are dates by the clocks of the boot server and of the controllers.
	StartTime    metav1.Time `json:"startTime"`
	EndTime      metav1.Time `json:"endTime"`
	RecordedTime metav1.Time `json:"recordedTime"`
	// Tool is the tool and its version. Transport is how it was loaded and how it reported.
	Tool      string    `json:"tool"`
	Transport Transport `json:"transport"`
	// Media are all disks that the agent found.
	Media []Medium `json:"media"`
}

// Transport is how the agent was loaded, and how it reached the boot server.
type Transport struct {
	// BootMethod is how the server loaded the agent: PXE, UefiHttp or VirtualMedia. FirmwareMode is UEFI or BIOS.
	BootMethod   v1alpha1.BootMethod `json:"bootMethod,omitempty"`
	FirmwareMode wire.FirmwareMode   `json:"firmwareMode,omitempty"`
	// TLS is true for HTTPS with a pinned certificate. Without it a client on the network of the server could have changed the report.
	TLS bool `json:"tls"`
	// SecureBoot is Enabled, Disabled or unknown.
	SecureBoot string `json:"secureBoot"`
}

// Medium is one disk of a certificate.
type Medium struct {
	MediaType       string `json:"mediaType"`
	Manufacturer    string `json:"manufacturer,omitempty"`
	Model           string `json:"model,omitempty"`
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	SerialNumber    string `json:"serialNumber,omitempty"`
	WWN             string `json:"wwn,omitempty"`
	Path            string `json:"path,omitempty"`
	SizeBytes       int64  `json:"sizeBytes,omitempty"`
	// Outcome is Erased or LeftOut. A disk that was left out still has its data, and Reason says why.
	Outcome wire.ErasureOutcome `json:"outcome"`
	Reason  string              `json:"reason,omitempty"`
	// Class is the sanitization method that the technique meets on this disk, by the clause in Basis.
	Class     wire.ErasePolicy `json:"class,omitempty"`
	Technique string           `json:"technique,omitempty"`
	Basis     string           `json:"basis,omitempty"`
	// Verification is the verification method and its result.
	Verification string `json:"verification,omitempty"`
	// Warnings are what the erasure did not reach, and what the next system may find on a disk that was left out.
	Warnings []string `json:"warnings,omitempty"`
	// Duration is how long the erasure took, by the clock of the server.
	Duration string `json:"duration,omitempty"`
}

// The texts of certificates. They are a part of what `bmcctl erasures verify` compares.
const (
	certificateTitle    = "Certificate of sanitization"
	metadataTitle       = "Record of an erasure of metadata, which is not a sanitization: other data remains on the disks"
	certificateStandard = "NIST SP 800-88 Rev. 2"
	certificateBasis    = "As reported by the agent that ran on the server. The signature shows that the provider received this report in this boot of this host. " +
		"The provider did not observe the disks itself."
	agentName = "agent of cluster-api-provider-baremetal"
	unknown   = "unknown"
)

// CertificateOf returns the certificate of a record.
func CertificateOf(spec *v1alpha1.BareMetalErasureSpec) Certificate {
	report := &spec.Report
	c := Certificate{
		Title: certificateTitle, Standard: certificateStandard, Basis: certificateBasis,
		Host: spec.Namespace + "/" + spec.HostName, Record: Name(spec.HostName, spec.ClaimID, spec.BootNumber),
		Server: spec.Server, Machine: spec.MachineName, ProviderID: spec.ProviderID, ClaimID: spec.ClaimID, BootNumber: spec.BootNumber,
		Policy: report.Policy, StartTime: report.StartTime, EndTime: report.EndTime, RecordedTime: spec.RecordedTime,
		Tool: agentName + ", version " + cmp.Or(report.AgentRelease, unknown),
		Transport: Transport{
			BootMethod: report.BootMethod, FirmwareMode: report.FirmwareMode, TLS: report.TLS, SecureBoot: cmp.Or(string(report.SecureBoot), unknown),
		},
		Media: []Medium{},
	}
	if report.Policy == wire.PolicyMetadata {
		c.Title, c.Standard = metadataTitle, ""
	}
	for i := range report.Disks {
		c.Media = append(c.Media, mediumOf(&report.Disks[i]))
	}
	return c
}

func mediumOf(d *v1alpha1.ErasedDisk) Medium {
	m := Medium{
		MediaType: "disk", Manufacturer: d.Vendor, Model: d.Model, FirmwareVersion: d.FirmwareVersion, SerialNumber: d.Disk.SerialNumber, WWN: d.Disk.WWN, Path: d.Disk.ByPath,
		SizeBytes: d.Disk.SizeBytes, Outcome: d.Outcome, Reason: d.Message, Class: d.Class, Technique: d.Method, Basis: d.Basis,
		Verification: verificationText(d.Verification), Warnings: d.Warnings,
	}
	if d.Transport != "" {
		m.MediaType = string(d.Transport) + " disk"
	}
	if d.StartTime != nil && d.EndTime != nil {
		m.Duration = d.EndTime.Sub(d.StartTime.Time).String()
	}
	return m
}

// verificationText describes a verification with the words of NIST SP 800-88: full verification, or representative sampling.
func verificationText(v *wire.ErasureVerification) string {
	if v == nil {
		return ""
	}
	result := "not passed"
	if v.Passed {
		result = "passed"
	}
	switch {
	case v.Kind == wire.ReadBack:
		return fmt.Sprintf("full: all that was overwritten was read back (%d bytes) and compared with zeros: %s", v.Bytes, result)
	case v.Kind == wire.Samples && v.Changed == 0: // no content of before was known: blank samples, or an operation that an earlier boot began
		return fmt.Sprintf("representative sampling: %d samples with %d bytes were read after the erasure (%d blank, %d unreadable), and none could be compared with content of "+
			"before: %s", v.Samples, v.Bytes, v.Blank, v.Unreadable, result)
	case v.Kind == wire.Samples:
		return fmt.Sprintf("representative sampling: %d samples with %d bytes were compared with those before the erasure (%d changed, %d blank, %d unreadable): %s",
			v.Samples, v.Bytes, v.Changed, v.Blank, v.Unreadable, result)
	case v.Kind == wire.DriveStatus:
		return "status that the drive reports; samples cannot be judged with this technique: " + result
	default:
		return fmt.Sprintf("%s: %s", v.Kind, result)
	}
}

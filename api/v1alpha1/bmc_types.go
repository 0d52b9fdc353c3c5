package v1alpha1

// BMC is the connection to a server's baseboard management controller.
// +kubebuilder:validation:XValidation:rule="!(has(self.caSecretName) && has(self.insecureSkipTLSVerify) && self.insecureSkipTLSVerify)",message="set caSecretName or insecureSkipTLSVerify, not both"
type BMC struct {
	// address is the URL of the BMC. Its scheme selects the protocol:
	//
	//   redfish://host[:port][/redfish/v1/Systems/ID]
	//       Redfish over HTTPS
	//   redfish+http://host[:port][/redfish/v1/Systems/ID]
	//       Redfish over HTTP: the credentials are sent in clear text
	//   ipmi://host[:port][?cipherSuite=17&privilege=operator]
	//       IPMI 2.0 (RMCP+). cipherSuite is 17 or 3, and defaults to the higher
	//       one that the BMC supports. privilege defaults to administrator.
	//   ipmitool://host[:port][?cipherSuite=17]
	//       IPMI through the program ipmitool, for BMCs that work with neither
	//   amt://host[:port], amt+http://host[:port]
	//       Intel AMT with and without TLS
	//   rpc+https://host[:port]/path?host=NAME, rpc+http://...
	//       your own webhook that controls the power of the server NAME
	//
	// Without a path, a Redfish BMC must manage exactly one system. Redfish uses HTTP basic authentication, or a Redfish session with "?auth=session".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != ''",message="must be a URL with a host, like redfish://192.0.2.10 or redfish://192.0.2.10/redfish/v1/Systems/1"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || url(self).getScheme() in ['redfish', 'redfish+http', 'ipmi', 'ipmitool', 'amt', 'amt+http', 'rpc+https', 'rpc+http']",message="has an unknown scheme: use redfish://, ipmi://, amt://, rpc+https:// or ipmitool://; redfish+http://, amt+http:// and rpc+http:// are without TLS"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not contain credentials: put username and password into the Secret in credentialsSecretName"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not contain a fragment (#...)"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^redfish([+]http)?:') || self.matches('^[^?]*([?]auth=(session|basic))?$')",message="has an unknown parameter: Redfish supports only ?auth=session and ?auth=basic (the default)"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ipmi:') || self.matches('^ipmi://[^/?]*/?([?](cipherSuite=(17|3)|privilege=(user|operator|administrator))(&(cipherSuite=(17|3)|privilege=(user|operator|administrator)))?)?$')",message="is not an IPMI address: it must have no path, and supports only the parameters cipherSuite (17 or 3) and privilege (user, operator or administrator), like ipmi://192.0.2.10?cipherSuite=17&privilege=operator"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(ipmitool|amt|amt[+]http):') || self.matches('^ipmitool://[^/?]*/?([?]cipherSuite=(17|3))?$') || self.matches('^amt([+]http)?://[^/?]*/?$')",message="has an unsupported path or parameter: ipmitool supports only the parameter cipherSuite (17 or 3), like ipmitool://192.0.2.10?cipherSuite=17, and AMT supports none"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^rpc[+]') || self.matches('[?&]host=[^&]')",message="does not name the BMC for the webhook: append ?host=NAME"
	Address string `json:"address,omitempty"`

	// credentialsSecretName is the name of a Secret in the host's namespace with the keys "username" and "password". The Secret needs the label
	// baremetalhost.infrastructure.cluster.x-k8s.io/bmc-secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret: lower case letters, digits, '-' and '.'"
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// caSecretName is the name of a Secret in the host's namespace. Its key "ca.crt" holds the PEM certificates of the authorities that the BMC's
	// certificate is verified against. The Secret needs the label baremetalhost.infrastructure.cluster.x-k8s.io/bmc-secret. Without it the
	// provider uses the system's root certificates.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret: lower case letters, digits, '-' and '.'"
	CASecretName string `json:"caSecretName,omitempty"`

	// insecureSkipTLSVerify disables the verification of the BMC's certificate: anyone who can intercept the connection can read the credentials. Defaults
	// to false.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
}

// Package kubeconfig checks kubeconfigs of others. A user who may write the Secret CLUSTER-kubeconfig decides what it contains. A client runs the programs that a kubeconfig names, and
// sends the files that it names to the server that it names.
package kubeconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Check returns nil for a kubeconfig that refers to nothing outside itself. It checks all entries, also those that the current context does
// not use. An error names the entry and the field, and quotes no value.
func Check(content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.New("it cannot be parsed as a kubeconfig") // the error may quote it
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		if err := checkCluster(name, config.Clusters[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		if err := checkUser(name, config.AuthInfos[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkCluster refuses a proxy, which would be another way into networks of the provider, and a server that is not authenticated: it would get the credentials of the
// user.
func checkCluster(name string, cluster *clientcmdapi.Cluster) error {
	server, err := url.Parse(cluster.Server)
	switch {
	case cluster.CertificateAuthority != "":
		return refusedField("clusters", name, "certificate-authority", "certificate-authority-data")
	case cluster.ProxyURL != "":
		return refusedField("clusters", name, "proxy-url", "a server that the provider reaches directly")
	case err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return refusedField("clusters", name, "a server that is not https://HOST:PORT", "the https:// URL of the API server")
	default:
		return nil
	}
}

func checkUser(name string, user *clientcmdapi.AuthInfo) error {
	switch {
	case user.TokenFile != "":
		return refusedField("users", name, "tokenFile", "token")
	case user.ClientCertificate != "":
		return refusedField("users", name, "client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return refusedField("users", name, "client-key", "client-key-data")
	case user.Exec != nil:
		return refusedField("users", name, "exec", "token or client-certificate-data")
	case user.AuthProvider != nil:
		return refusedField("users", name, "auth-provider", "token or client-certificate-data")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0:
		return refusedField("users", name, "as, as-uid, as-groups or as-user-extra", "the credentials of that user")
	default:
		return nil
	}
}

func refusedField(list, name, field, instead string) error {
	return fmt.Errorf("%s[%.64q] has %s, which is not taken from a Secret: use %s", list, name, field, instead)
}

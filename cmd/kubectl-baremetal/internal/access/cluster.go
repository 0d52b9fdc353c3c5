// Package access connects a command to the management cluster: its client, its namespace, and its user. It knows which errors say that something may not be read or
// does not exist, so that a command can report that and continue.
package access

import (
	"cmp"
	"fmt"
	"io"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

const (
	// Owner is the field manager of all writes, and the reporting controller of the events of this program.
	Owner = "kubectl-baremetal"
	// PageSize is the number of objects of one page of a list. It is the default of kubectl's --chunk-size.
	PageSize = 500

	requestTimeout    = 30 * time.Second // of one request at most; a watch has no timeout
	requestsPerSecond = 50               // a person waits for the answers; the default of client-go is 5
)

// Cluster is the management cluster, as one command uses it.
type Cluster struct {
	// Client makes one request for each call, and no other: it does not discover kinds.
	Client client.WithWatch
	// Config is the configuration of Client, for what has no kind, such as the logs of a Pod. It is nil in tests without an API server.
	Config *rest.Config
	// Namespace is --namespace, or otherwise that of the context.
	Namespace string
	// ContextUser is the name of the user in the kubeconfig. Only this file has the name. It may be empty.
	ContextUser string
}

// Connect reads the kubeconfig as kubectl does. No request is made. Warnings of the API server are written to warnings.
func Connect(flags *genericclioptions.ConfigFlags, userAgent string, warnings io.Writer) (*Cluster, error) {
	loader := flags.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	config.UserAgent = userAgent
	config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: NewMapper()})
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: c, Config: config, Namespace: namespace, ContextUser: contextUser(flags)}, nil
}

// contextUser returns the name of the user of the context; empty if the kubeconfig has no such name, such as in a Pod.
func contextUser(flags *genericclioptions.ConfigFlags) string {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	name := raw.CurrentContext
	if flags.Context != nil {
		name = cmp.Or(*flags.Context, name)
	}
	user := ""
	if of := raw.Contexts[name]; of != nil {
		user = of.AuthInfo
	}
	if flags.AuthInfoName != nil {
		user = cmp.Or(*flags.AuthInfoName, user)
	}
	return user
}

// Scheme returns the kinds that this program knows. It reads owners of machines of other kinds too, without their types.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, eventsv1.AddToScheme, authenticationv1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, bootstrapv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

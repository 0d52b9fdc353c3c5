package access

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Log returns the log of a container for a time until now. The caller closes it. ctx lasts until then.
func (c *Cluster) Log(ctx context.Context, pod *corev1.Pod, container string, since time.Duration) (io.ReadCloser, error) {
	if c.Config == nil {
		return nil, errors.New("there is no connection for logs")
	}
	config := rest.CopyConfig(c.Config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(Scheme()).WithoutConversion()
	r, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return r.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").Param("container", container).
		Param("sinceSeconds", strconv.FormatInt(int64(since/time.Second), 10)).Stream(ctx)
}

// ServerVersion returns what the API server says of its version, as JSON.
func (c *Cluster) ServerVersion(ctx context.Context) ([]byte, error) {
	if c.Config == nil {
		return nil, errors.New("there is no connection for the version")
	}
	config := rest.CopyConfig(c.Config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(Scheme()).WithoutConversion()
	r, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return r.Get().AbsPath("/version").DoRaw(ctx)
}

package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/source"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/space"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// conversionBounds are those of conversions and verifications, which cost a processor and up to 150 MiB of memory each.
var conversionBounds = origin.Bounds{PerOrigin: 1, Guaranteed: 1, Shared: 1, Max: 4}

// maxJobs is how many images of a namespace are prepared, or wait for that, at once. The others begin when one of these has ended.
const maxJobs = 32

// Service prepares and keeps images. It is safe for concurrent use.
type Service struct {
	opts        Options
	transport   *http.Transport
	folders     *folders
	downloads   *origin.FairLimiter
	conversions *origin.FairLimiter
	space       *space.Store  // by the name of the folder
	logLimiter  *rate.Limiter // limits the messages about failures
	metrics     *serviceMetrics
	jobs        *origin.Jobs[*job]

	// mu may be locked while the lock of space is held, and not the other way round.
	mu    sync.Mutex
	ready map[string]Info // of verified images, by the name of the folder
}

// job is the preparation of an image for a namespace.
type job struct {
	namespace   string
	key         string // the name of the folder
	url         string
	sum         origin.Checksum
	raw         bool // Source.Raw
	credentials Credentials

	progress progress
}

// New returns a Service for a folder. It deletes what an earlier process did not complete. Close it.
func New(opts Options) (*Service, error) {
	opts.setDefaults()
	s := &Service{
		opts: opts, folders: newFolders(opts.Dir), transport: origin.NewTransport(opts.Outbound), downloads: origin.NewFairLimiter(origin.FetchBounds), conversions: origin.NewFairLimiter(conversionBounds),
		logLimiter: rate.NewLimiter(1, 50), metrics: newServiceMetrics(), ready: map[string]Info{},
	}
	s.space = space.New(space.Options{
		MaxBytes: opts.MaxBytes, Retention: opts.Retention, Delete: s.delete,
		Full: &Error{NoSpace, fmt.Sprintf("the images may have %d bytes, and there is no room for it beside what servers use now; or the namespace has used its share: "+
			"raise images.maxSize of the boot server's configuration file", opts.MaxBytes)},
		Revoked: &Error{NoSpace, "it gave way to the images of another namespace because the space is full: raise images.maxSize of the boot server's configuration file"},
	})
	if err := s.loadDir(); err != nil {
		return nil, err
	}
	s.exportSize()
	s.jobs = origin.NewJobs(origin.JobOptions{
		RetryAfter: opts.RetryAfter, MaxRetryAfter: opts.MaxRetryAfter, Permanent: permanent, MaxPerNamespace: maxJobs,
	}, s.run)
	return s, nil
}

// Close ends what runs and waits for it.
func (s *Service) Close() { s.jobs.Close() }

// Prepare returns the description of an image that is ready. Otherwise it begins to prepare the image and returns at once, with *NotReady. It returns *Error
// if the image is not available, which is tried again some time later.
func (s *Service) Prepare(_ context.Context, namespace string, from Source, credentials Credentials) (Info, error) {
	sum, err := origin.ParseChecksum(from.Checksum)
	if err != nil {
		return Info{}, &Error{ChecksumDiffers, fmt.Sprintf("%.200q is no checksum: sha256:HEX and sha512:HEX are", from.Checksum)}
	}
	key := sum.FileName()
	if info, ok := s.use(namespace, key); ok {
		return info, nil
	}
	return Info{}, s.start(&job{namespace: namespace, key: key, url: from.URL, sum: sum, raw: from.Raw, credentials: credentials})
}

// Open opens an image that is ready. Otherwise the error wraps ErrNotYet: call Prepare.
func (s *Service) Open(namespace string, from Source) (*Opened, error) {
	sum, err := origin.ParseChecksum(from.Checksum)
	if err != nil {
		return nil, err
	}
	key := sum.FileName()
	info, ok := s.use(namespace, key)
	if !ok {
		if s.space.Contains(key) { // an earlier process left it: verify it
			return nil, s.start(&job{namespace: namespace, key: key, url: from.URL, sum: sum, raw: from.Raw})
		}
		return nil, ErrNotYet
	}
	opened, err := s.folders.open(key)
	if err != nil || opened.Info.ManifestDigest != info.ManifestDigest {
		// An operator may empty the folder at any time.
		if opened != nil {
			err = errors.Join(err, opened.Close())
		}
		s.logFailure(namespace, key, fmt.Errorf("an image in the folder has changed: %w", err))
		return nil, errors.Join(ErrNotYet, s.space.Remove(key))
	}
	s.touch(key)
	return opened, nil
}

// use returns the description of an image that is ready, and records that a namespace uses it.
func (s *Service) use(namespace, key string) (Info, bool) {
	if !s.space.Use(namespace, key) {
		return Info{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.ready[key]
	return info, ok
}

// start begins a job unless it runs or has failed a short time ago, and returns its state as an error. Other credentials may be the right ones, so they are a part of
// its key.
func (s *Service) start(wanted *job) error {
	wanted.progress.set(Waiting, 0, 0)
	name := fmt.Sprintf("%s %t %x %s", wanted.key, wanted.raw, sha256.Sum256(wanted.credentials), wanted.url)
	j, err := s.jobs.Start(wanted.namespace, name, wanted)
	return cmp.Or(err, j.progress.error())
}

// run runs a job to its end.
func (s *Service) run(ctx context.Context, j *job) error {
	began := time.Now()
	s.exportSize()
	failure := s.failure(ctx, j, s.prepare(ctx, j))
	s.exportSize()
	s.metrics.countPreparation(failure, time.Since(began))
	if failure != nil {
		return failure
	}
	return nil
}

// prepare makes an image ready.
func (s *Service) prepare(ctx context.Context, j *job) error {
	if s.space.Contains(j.key) {
		if err := s.verify(ctx, j); err == nil || ctx.Err() != nil {
			return err
		}
		// The image is damaged.
		if err := s.space.Remove(j.key); err != nil {
			return err
		}
	}
	file, err := source.New(j.url, j.credentials, s.transport, s.opts.TokenServices...)
	if err != nil {
		return err
	}
	ctx, r, err := s.reserve(ctx, j)
	if err != nil {
		return err
	}
	defer r.close()
	if done, err := s.download(ctx, j, file, r); done || err != nil {
		return causeOf(ctx, err)
	}
	return causeOf(ctx, s.convert(ctx, j, r))
}

// name is the URL without its query, which may contain a token.
func (j *job) name() string {
	name, _, _ := strings.Cut(j.url, "?")
	return name
}

// logFailure logs why an image could not be prepared.
func (s *Service) logFailure(namespace, from string, cause error) {
	if s.logLimiter.Allow() {
		s.opts.Log.Info("Failed to prepare an image", "namespace", namespace, "source", fmt.Sprintf("%.500s", from), "cause", fmt.Sprintf("%.500s", cause.Error()))
	}
}

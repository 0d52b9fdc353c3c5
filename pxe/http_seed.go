package pxe

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// seed returns the handler of seeds. For the files with the bootstrap data, a host with its token waits for a slot. The other files are small, and so is the answer to a stranger.
func (h *Handler) seed(slots *answerSlots) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, ok := hostOf(r)
		if !ok {
			refuse(w, r, errNoName)
			return
		}
		if seed.HasUserData(r.PathValue("file")) && h.Booter.KnowsSeedToken(r.Context(), host, r.PathValue("token")) {
			leave, err := slots.enter(r.Context(), host)
			if err != nil {
				refuse(w, r, err)
				return
			}
			defer leave()
		}
		h.serveSeed(w, r, host)
	}
}

func (h *Handler) serveSeed(w http.ResponseWriter, r *http.Request, host string) {
	file := r.PathValue("file")
	data, err := h.Booter.BootstrapData(r.Context(), host, r.PathValue("token"), file, clientOf(r))
	if err != nil {
		refuse(w, r, err)
		return
	}
	content, found, err := seed.File(data, file, h.base(r))
	switch {
	case err != nil:
		refuse(w, r, err)
	case !found:
		refuse(w, r, errNotFound)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(content) // the client is gone
	}
}

func (h *Handler) report(w http.ResponseWriter, r *http.Request) {
	outcome := Outcome(r.PathValue("outcome"))
	if outcome != Up && outcome != Succeeded && outcome != Failed {
		refuse(w, r, ErrRefused)
		return
	}
	host, ok := hostOf(r)
	if !ok {
		refuse(w, r, errNoName)
		return
	}
	// The body of a report is ignored.
	if err := h.Booter.Report(r.Context(), host, r.PathValue("token"), outcome, clientOf(r)); err != nil {
		refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// hostOf returns the host in the path of a request. ok is false for a name that no object can have: such a guess causes no read from the API server.
func hostOf(r *http.Request) (host string, ok bool) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	return namespace + "/" + name, len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

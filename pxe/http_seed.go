package pxe

import (
	"net/http"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

func (h *Handler) seed(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	data, err := h.Booter.Seed(r.Context(), hostOf(r), r.PathValue("token"), file, clientOf(r))
	if err != nil {
		refuse(w, r, err)
		return
	}
	content, ok, err := seed.File(data, file, h.base(r))
	switch {
	case err != nil:
		refuse(w, r, err)
	case !ok:
		refuse(w, r, errNothing)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(content)
	}
}

func (h *Handler) report(w http.ResponseWriter, r *http.Request) {
	outcome := Outcome(r.PathValue("outcome"))
	if outcome != Up && outcome != Succeeded && outcome != Failed {
		refuse(w, r, ErrRefused)
		return
	}
	// What the system says in the body is of no use; that it says it is.
	if err := h.Booter.Report(r.Context(), hostOf(r), r.PathValue("token"), outcome, clientOf(r)); err != nil {
		refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func hostOf(r *http.Request) string { return r.PathValue("namespace") + "/" + r.PathValue("name") }

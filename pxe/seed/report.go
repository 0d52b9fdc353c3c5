package seed

import (
	"path"
	"strings"
	"text/template"
	"time"
)

// sentinel is the file that bootstrap providers write on success, by Cluster API's contract.
const sentinel = "/run/cluster-api/bootstrap-success.complete"

// outcomeWatch is a script that waits for the end of a bootstrap and reports its result.
type outcomeWatch struct {
	// Sentinel is the file that exists after a successful bootstrap.
	Sentinel string
	// Finished is a shell command that succeeds once the bootstrap has ended.
	Finished string
	// Poll is the interval of checks, in whole seconds, and Looks their maximum number.
	Poll   time.Duration
	Checks int
	// Background is true for a script that its caller waits for: it continues in the background.
	Background bool
}

var (
	// cloudInitWatch waits for the end of cloud-init. Before that the commands of the user data run, and phone_home comes after them.
	cloudInitWatch = outcomeWatch{Sentinel: sentinel, Finished: "[ -e /run/cloud-init/result.json ]", Poll: 5 * time.Second, Checks: 720, Background: true}
	// ignitionWatch waits for the sentinel, or for a failure of the unit that Cluster API's kubeadm bootstrap provider writes.
	ignitionWatch = outcomeWatch{
		Sentinel: sentinel, Finished: "[ -e " + sentinel + " ] || systemctl is-failed --quiet kubeadm.service", Poll: 5 * time.Second, Checks: 720,
	}
)

// sendFunction sends a report with the tools of the image, ten times at most. The shells of BusyBox and Debian can run it. It uses timeout because not every wget
// of BusyBox has a timeout option.
const sendFunction = `post() {
  if command -v curl >/dev/null 2>&1; then
    curl --silent --fail --max-time 30 --output /dev/null --data reported "$1"
  elif command -v wget >/dev/null 2>&1; then
    timeout 30 wget -q -O /dev/null --post-data reported "$1"
  else
    python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], data=b"reported", timeout=30)' "$1" 2>/dev/null
  fi
}
send() {
  tries=1
  until post "$1"; do
    [ "$tries" -lt 10 ] || return 1
    sleep "$tries"
    tries=$((tries + 1))
  done
}
`

var (
	watchScript = template.Must(template.New("").Parse(`#!/bin/sh
# Reports to the boot server whether the bootstrap data was carried out.
` + sendFunction + `
{{- if .Background }}
if [ "$1" != watch ]; then
  [ -d /run/systemd/system ] && systemd-run --quiet --collect --unit=capbm-report-bootstrap /bin/sh "$0" watch && exit
  setsid /bin/sh "$0" watch </dev/null >/dev/null 2>&1 &
  exit
fi
{{- end }}
looks=1
until {{ .Finished }}; do
  [ "$looks" -lt {{ .Checks }} ] || break
  sleep {{ .Seconds }}
  looks=$((looks + 1))
done
if [ -e {{ .Sentinel }} ]; then
  send {{ .Succeeded }}
else
  send {{ .Failed }}
fi
`))
	upScript = template.Must(template.New("").Parse(`#!/bin/sh
# Reports to the boot server that the operating system is up.
` + sendFunction + `send {{ . }}
`))
)

func (w outcomeWatch) render(d Data, base string) (string, error) {
	var out strings.Builder
	err := watchScript.Execute(&out, struct {
		outcomeWatch

		Seconds           int
		Succeeded, Failed string
	}{w, int(w.Poll.Seconds()), quoted(base, d.SucceededPath), quoted(base, d.FailedPath)})
	return out.String(), err
}

// renderUp renders the script that reports that the system is up.
func renderUp(d Data, base string) (string, error) {
	var out strings.Builder
	err := upScript.Execute(&out, quoted(base, d.ReportPath))
	return out.String(), err
}

// quoted returns the URL of a path as a word of the shell.
func quoted(base, where string) string { return quote(base + path.Clean("/"+where)) }

// quote makes a text one word of the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

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
	// Poll is the interval of checks, in whole seconds, and Checks their maximum number.
	Poll   time.Duration
	Checks int
	// Background is true for a script that its caller waits for: it continues in the background.
	Background bool
	// Mark is a file that the script creates once the result is known, and before it reports. It is empty for no file.
	Mark string
}

// bootstrapUnits are the systemd units with which bootstrap providers carry out their data where Ignition wrote it: kubeadm (CABPK), RKE2 (CAPRKE2),
// k0smotron, and this project's BareMetalConfig. Each is a oneshot unit, so its state is "failed" once one of its commands has failed. The servers that they
// start (rke2-server.service, k0sworker.service) are not in the list: systemd restarts these after a failure, which is no failure of the bootstrap.
var bootstrapUnits = []string{"kubeadm.service", "rke2-install.service", "k0s-bootstrap.service", "capbm-bootstrap.service"}

var (
	// cloudInitWatch waits for the end of cloud-init. Before that the commands of the user data run, and phone_home comes after them.
	cloudInitWatch = outcomeWatch{Sentinel: sentinel, Finished: "[ -e /run/cloud-init/result.json ]", Poll: 5 * time.Second, Checks: 720, Background: true}
	// ignitionWatch waits for the sentinel, or for a failure of one of bootstrapUnits. systemctl(1): is-failed succeeds if at least one of the units has
	// failed. A unit that does not exist is inactive, and so has not failed.
	ignitionWatch = outcomeWatch{
		Sentinel: sentinel, Finished: "[ -e " + sentinel + " ] || systemctl is-failed --quiet " + strings.Join(bootstrapUnits, " "),
		Poll: 5 * time.Second, Checks: 720, Mark: watchPath + doneSuffix,
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
checks=1
until {{ .Finished }}; do
  [ "$checks" -lt {{ .Checks }} ] || break
  sleep {{ .Seconds }}
  checks=$((checks + 1))
done
{{- with .Mark }}
: >{{ . }}
{{- end }}
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

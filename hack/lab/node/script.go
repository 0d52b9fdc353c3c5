package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// sentinel is the file that reports the success of the bootstrap (Cluster API's contract, "Sentinel file").
	sentinel = "/run/cluster-api/bootstrap-success.complete"
	// scriptLog is where cloud-init writes what scripts print.
	scriptLog = "/var/log/cloud-init-output.log"
	// programs is the folder with the programs that the lab emulates for scripts.
	programs = "/opt/lab/bin"
)

// kubeadmProgram asks the lab to join, since a real kubeadm needs a separate machine. The lab reads the arguments at one descriptor, and writes the exit
// code to the other.
const kubeadmProgram = `#!/bin/sh
echo "$*" >&3
read -r code <&4
exit "$code"
`

// runScripts runs the scripts of the user data with a real shell. The bootstrap succeeded only if the sentinel file exists after them.
func (n *Node) runScripts(ctx context.Context, scripts []script, metaData map[string]string) error {
	if err := n.writePrograms(metaData); err != nil {
		return err
	}
	for _, s := range scripts {
		if err := n.runScript(ctx, s); err != nil {
			output, _ := os.ReadFile(n.path(scriptLog)) // the error alone has less information
			return fmt.Errorf("script %s: %w\n%s", s.name, err, bytes.TrimSpace(output))
		}
	}
	if !n.exists(sentinel) {
		return fmt.Errorf("the scripts succeeded without the sentinel file %s", sentinel)
	}
	return nil
}

// writePrograms writes the programs that scripts call: kubeadm, and a cloud-init that answers queries for the meta-data.
func (n *Node) writePrograms(metaData map[string]string) error {
	var query strings.Builder
	query.WriteString("#!/bin/sh\ncase \"$1 $2\" in\n")
	for _, key := range slices.Sorted(maps.Keys(metaData)) {
		fmt.Fprintf(&query, "\"query ds.meta_data.%s\") echo '%s' ;;\n", key, strings.ReplaceAll(metaData[key], "'", `'\''`))
	}
	fmt.Fprintf(&query, "\"query v1.instance_id\") echo '%s' ;;\n*) exit 1 ;;\nesac\n", metaData["instance-id"])
	for _, folder := range []string{programs, filepath.Dir(scriptLog), "/run", "/tmp"} {
		if err := os.MkdirAll(n.path(folder), 0o700); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{"kubeadm": kubeadmProgram, "cloud-init": query.String()} {
		if err := os.WriteFile(n.path(filepath.Join(programs, name)), []byte(content), 0o700); err != nil { //nolint:gosec // it is run
			return err
		}
	}
	return nil
}

// ownPath matches the start of an absolute path in a script.
var ownPath = regexp.MustCompile(`(^|[\s"'=:<>(])(/(?:etc|run|var|tmp)/)`)

// runScript runs a script with its paths below the server's disk, as far as they can be recognized.
func (n *Node) runScript(ctx context.Context, s script) error {
	path := n.path(filepath.Join("/var/lib/cloud/instance/scripts", s.name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	below := ownPath.ReplaceAllString(s.content, "${1}"+strings.ReplaceAll(n.Dir, "$", "$$")+"${2}")
	if err := os.WriteFile(path, []byte(below), 0o600); err != nil {
		return err
	}
	output, err := os.OpenFile(n.path(scriptLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", path) //nolint:gosec // the lab's own bootstrap data
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.Dir, output, output
	cmd.Env = []string{"PATH=" + n.path(programs) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + n.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with the programs that it runs
	cmd.WaitDelay = 10 * time.Second
	return errors.Join(n.answer(ctx, cmd, output), output.Close())
}

// answer runs a script to its end, and carries out what its kubeadm asks for.
func (n *Node) answer(ctx context.Context, cmd *exec.Cmd, output io.Writer) error {
	requests, toLab, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = requests.Close() }()
	fromLab, answers, err := os.Pipe()
	if err != nil {
		return errors.Join(err, toLab.Close())
	}
	defer func() { _ = answers.Close() }()
	cmd.ExtraFiles = []*os.File{toLab, fromLab} // the descriptors 3 and 4
	err = cmd.Start()
	if err := errors.Join(err, toLab.Close(), fromLab.Close()); err != nil {
		return err
	}
	lines := bufio.NewScanner(requests) // it ends with the script
	for lines.Scan() {
		code := 0
		if err := n.kubeadmJoin(ctx, strings.Fields(lines.Text())); err != nil {
			_, _ = fmt.Fprintln(output, "kubeadm:", err)
			code = 1
		}
		_, _ = fmt.Fprintln(answers, code) // the script may have been ended
	}
	return errors.Join(cmd.Wait(), lines.Err())
}

// kubeadmJoin does what `kubeadm join --config FILE` does.
func (n *Node) kubeadmJoin(ctx context.Context, args []string) error {
	if len(args) != 3 || args[0] != "join" || args[1] != "--config" {
		return fmt.Errorf("the kubeadm of the lab only knows join --config FILE, and not %q", strings.Join(args, " "))
	}
	return n.join(ctx, args[2])
}

// Command image writes what a release has beside its manifests, without a container engine and without root. It has two commands:
//
//	build [flags]             write the image of the manager, as an archive in the layout of the Open Container Initiative (OCI), and its SBOMs
//	sbom [flags] PROGRAM...   write the SBOM of the programs, boot loaders and agents of a release
//
// The same input gives the same bytes: the date of everything is --epoch, owners and modes are set here, and names are sorted. hack/image.sh and
// hack/releasepage.sh run it.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// user is the user of the manager: the number that images without a shell usually have for an unprivileged user. The Deployments name it as well, since
// Kubernetes checks only numbers.
const user = 65532

// options are the arguments.
type options struct {
	programs, packages, loaders, license string
	agents, agentPrograms                string
	archs                                []string
	name, version, revision              string
	epoch                                int64
	output, archives                     string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	set := flag.NewFlagSet("image", flag.ExitOnError)
	set.StringVar(&o.programs, "programs", "", "Folder with the manager, linked statically, as ARCH/manager.")
	set.StringVar(&o.packages, "packages", "", "Folder with the folder ARCH of each architecture, which packages.sh made.")
	set.StringVar(&o.loaders, "loaders", "", "Folder that loaders.sh made.")
	set.StringVar(&o.agents, "agents", "", "Folder that agent.sh made, with the agent of each architecture of servers.")
	set.StringVar(&o.agentPrograms, "agent-programs", "", "Folder with the program of these agents, as program-ARCH/agent.")
	set.StringVar(&o.license, "license", "", "The project's licence.")
	archs := set.String("arch", "amd64", "Architectures of the image, with commas. Several have an index.")
	set.StringVar(&o.name, "name", "", "Name of the image, with its tag.")
	set.StringVar(&o.version, "version", "", "Version of the release.")
	set.StringVar(&o.revision, "revision", "", "Commit that the programs were built from.")
	set.Int64Var(&o.epoch, "epoch", 0, "The date of everything, in seconds since 1970.")
	set.StringVar(&o.output, "output", "", "File to write. The SBOMs of OUTPUT.tar are OUTPUT-ARCH.spdx.json.")
	set.StringVar(&o.archives, "archives", "", "Folder with the archives of a release, boot-loaders.tar.gz and agent-ARCH.tar.gz, for its SBOM.")
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	if err := set.Parse(args); err != nil {
		return err
	}
	o.archs = strings.Split(*archs, ",")
	switch command {
	case "build":
		digest, err := build(&o)
		if err == nil {
			fmt.Println(digest)
		}
		return err
	case "sbom":
		return writeReleaseSBOM(&o, set.Args())
	default:
		return fmt.Errorf("%q is no command: use build or sbom", command)
	}
}

func (o *options) date() time.Time { return time.Unix(o.epoch, 0).UTC() }

// build writes the archive and the SBOM of each architecture. It returns the digest of the image's manifest, or of the index of several architectures.
func build(o *options) (string, error) {
	files := newTree()
	if err := addLoaders(files, o.loaders); err != nil {
		return "", err
	}
	// Boot loaders and agents are the same for all architectures of the image: they run on servers.
	loaders, err := pack("boot loaders", files, o.date())
	if err != nil {
		return "", err
	}
	files = newTree()
	if err := addAgents(files, o.agents); err != nil {
		return "", err
	}
	agents, err := pack("agents", files, o.date())
	if err != nil {
		return "", err
	}
	var images []platformImage
	var used []*packages
	for _, arch := range o.archs {
		packages, err := openPackages(filepath.Join(o.packages, arch), arch)
		if err != nil {
			return "", err
		}
		img, err := buildImage(o, arch, packages, loaders, agents)
		if err != nil {
			return "", err
		}
		images, used = append(images, platformImage{arch, img}), append(used, packages)
	}
	digest, err := writeArchive(images, o)
	if err != nil {
		return "", err
	}
	for i, img := range images {
		if err := writeImageSBOM(o, img, used[i]); err != nil {
			return "", err
		}
	}
	return digest, nil
}

// buildImage makes the image of an architecture. Layers that rarely change come first: registries and nodes keep the layers that they have.
func buildImage(o *options, arch string, p *packages, loaders, agents layer) (v1.Image, error) {
	files := newTree()
	if err := addSystem(files, p); err != nil {
		return nil, err
	}
	system, err := pack("Debian's packages", files, o.date())
	if err != nil {
		return nil, err
	}
	files = newTree()
	if err := addManager(files, o, arch); err != nil {
		return nil, err
	}
	program, err := pack("manager", files, o.date())
	if err != nil {
		return nil, err
	}
	return assemble(o, arch, []layer{system, loaders, agents, program})
}

// manager returns the file of the manager.
func (o *options) manager(arch string) string { return filepath.Join(o.programs, arch, "manager") }

// addManager adds the program, which may get the capability to listen on the ports 67, 69 and 547, and no other.
func addManager(t *tree, o *options, arch string) error {
	if err := t.copy("manager", o.manager(arch), 0o755); err != nil {
		return err
	}
	t.entries["manager"].capabilities = bindService
	return t.copy("usr/share/doc/capbm/copyright", o.license, 0o644)
}

// addLoaders adds the boot loaders with the list of their checksums, which names the packages.
func addLoaders(t *tree, folder string) error {
	const to = "usr/lib/capbm/loaders/"
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	if len(names) < 2 {
		return fmt.Errorf("%s holds no boot loaders: hack/loaders.sh makes them", folder)
	}
	for _, name := range names {
		if filepath.Base(name)[0] == '.' {
			continue // the stamp of the script
		}
		if err := t.copy(to+filepath.Base(name), name, 0o644); err != nil {
			return err
		}
	}
	_, err = os.Stat(filepath.Join(folder, "SHA256SUMS"))
	return err
}

// addSystem adds the files that the manager needs: certificates, ipmitool with its libraries, users, and folders.
func addSystem(t *tree, p *packages) error {
	for _, folder := range []string{"etc", "usr/bin", "usr/lib", "usr/sbin", "proc", "sys", "dev", "run"} {
		t.dir(folder, 0o755)
	}
	// The manager writes here if the Deployment mounts no volume.
	t.dir("tmp", fs.ModeSticky|0o777)
	for _, cache := range []string{"var/cache/capbm", "var/cache/capbm-images"} {
		t.dir(cache, 0o750)
		t.entries[cache].owner = user
	}
	for _, link := range []string{"bin", "lib", "sbin"} {
		t.symlink(link, "usr/"+link)
	}
	t.file("etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/:/usr/sbin/nologin\ncapbm:x:%d:%d:manager:/tmp:/usr/sbin/nologin\n", user, user))
	t.file("etc/group", fmt.Appendf(nil, "root:x:0:\ncapbm:x:%d:\n", user))
	// Names are looked up in /etc/hosts first, as on nodes.
	t.file("etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	if err := p.addProgram(t, "ipmitool", "usr/bin/ipmitool"); err != nil {
		return err
	}
	if err := p.addCertificates(t); err != nil {
		return err
	}
	if err := p.add(t, "base-files", "usr/lib/os-release"); err != nil {
		return err
	}
	t.symlink("etc/os-release", "../usr/lib/os-release")
	return p.describe(t)
}

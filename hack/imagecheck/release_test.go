package imagecheck

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// platforms are those that bmcctl and bmcsim are built for here. A release has darwin too, but the first build for a platform takes minutes.
var platforms = strings.Fields(cmp.Or(os.Getenv("PLATFORMS"), "linux/amd64 linux/arm64"))

// released is a release as the tests look at it.
type released struct {
	// folder has the folder of the release page and the repository for clusterctl, page is the former.
	folder, page string
	// image is the name with the digest, as it was printed, digest that of the index.
	image, digest string
	// public is the file with the key that verifies the signature.
	public string
}

func TestRelease(t *testing.T) {
	private, public := keys(t, elliptic.P256())
	r := release(t, controllerstest.Root(), imageName, "RELEASE_KEY="+private)
	r.public = public
	t.Run("reproducible", r.testReproducible)
	t.Run("files", r.testFiles)
	t.Run("index", r.testIndex)
	t.Run("manifests", r.testManifests)
	t.Run("programs", r.testPrograms)
	t.Run("SBOMs", r.testSBOMs)
	t.Run("checksums and signature", r.testSignature) // changes a file
}

// release makes the files of a release from a checkout.
func release(t *testing.T, checkout, image string, environment ...string) *released {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	command := releaseCommand(t, checkout, append(environment, "PLATFORMS="+strings.Join(platforms, " ")), folder, imageVersion, image)
	out, err := command.Output()
	g.Expect(err).NotTo(HaveOccurred(), "%s", command.Stderr)
	r := &released{folder: folder, page: filepath.Join(folder, "release", imageVersion), image: strings.TrimSpace(string(out))}
	_, r.digest, _ = strings.Cut(r.image, "@")
	return r
}

func releaseCommand(t *testing.T, checkout string, environment []string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/releasepage.sh", args...)
	command.Dir, command.Env = checkout, append(append(os.Environ(), sourceOf(t).environment()...), environment...)
	command.Stderr = new(strings.Builder)
	return command
}

// keys makes a pair of keys, and returns their files.
func keys(t *testing.T, curve elliptic.Curve) (private, public string) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	g.Expect(err).NotTo(HaveOccurred())
	folder := t.TempDir()
	private, public = filepath.Join(folder, "release.key"), filepath.Join(folder, "release.pub")
	g.Expect(os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}), 0o600)).To(Succeed())
	return private, public
}

// inputs are the parts of .cache that a build in another folder takes from this one: the programs of the lab, and the packages of Debian, which the network
// must not change in between. Compressing the agent's modules and firmware takes 20 s, so it is repeated for one architecture only.
var inputs = []string{"bin", "image", "loaders", "agent/tools", "agent/amd64", "agent/arm64", "agent/base-arm64"}

// elsewhere copies the checkout to another folder, without git.
func elsewhere(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	root := controllerstest.Root()
	other := filepath.Join(t.TempDir(), "elsewhere")
	for name := range strings.SplitSeq(strings.TrimRight(must(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		g.Expect(err).NotTo(HaveOccurred())
		info, err := os.Stat(filepath.Join(root, name))
		g.Expect(err).NotTo(HaveOccurred())
		to := filepath.Join(other, name)
		g.Expect(os.MkdirAll(filepath.Dir(to), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(to, content, info.Mode().Perm())).To(Succeed())
	}
	for _, name := range inputs {
		to := filepath.Join(other, ".cache", name)
		g.Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
		g.Expect(os.Symlink(filepath.Join(root, ".cache", name), to)).To(Succeed())
	}
	return other
}

// A copy of the checkout in another folder gives the same bytes. The digest of the index may be given beforehand.
func (r *released) testReproducible(t *testing.T) {
	g := NewWithT(t)
	other := release(t, elsewhere(t), r.image)
	g.Expect(other.image).To(Equal(r.image))
	must(t, "diff", filepath.Join(r.page, "checksums.txt"), filepath.Join(other.page, "checksums.txt"))
	g.Expect(filepath.Join(other.page, "checksums.txt.sig")).NotTo(BeAnExistingFile(), "signed without a key")
}

// The page has the files of the repository for clusterctl, and what else a release has; all but the signature have a checksum.
func (r *released) testFiles(t *testing.T) {
	g := NewWithT(t)
	want := []string{
		"agent-amd64.tar.gz", "agent-arm64.tar.gz", "boot-loaders.tar.gz", "checksums.txt", "checksums.txt.sig", "cluster-api-provider-baremetal-image-amd64.spdx.json",
		"cluster-api-provider-baremetal-image-arm64.spdx.json", "cluster-api-provider-baremetal-image.tar", "cluster-api-provider-baremetal.spdx.json",
		"release-notes.md", "bootstrap-components.yaml",
	}
	for _, program := range []string{"bmcctl", "bmcsim"} {
		for _, platform := range platforms {
			want = append(want, program+"-"+strings.ReplaceAll(platform, "/", "-"))
		}
	}
	for _, platform := range platforms {
		want = append(want, "kubectl-baremetal-"+strings.ReplaceAll(platform, "/", "-")+".tar.gz")
	}
	repository, err := os.ReadDir(filepath.Join(r.folder, provider.Infrastructure, imageVersion))
	g.Expect(err).NotTo(HaveOccurred())
	for _, e := range repository {
		want = append(want, e.Name())
	}
	g.Expect(want).To(ContainElements("infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml", "clusterclass-baremetal.yaml"))
	entries, err := os.ReadDir(r.page)
	g.Expect(err).NotTo(HaveOccurred())
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	g.Expect(names).To(ConsistOf(want))
	sums, err := os.ReadFile(filepath.Join(r.page, "checksums.txt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(string(sums), "\n")).To(Equal(len(names) - 2))

	loaders := t.TempDir()
	must(t, "tar", "-xzf", filepath.Join(r.page, "boot-loaders.tar.gz"), "-C", loaders)
	mustIn(t, loaders, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	agents := t.TempDir() // as agent.dir wants it
	for _, arch := range []string{"amd64", "arm64"} {
		must(t, "tar", "-xzf", filepath.Join(r.page, "agent-"+arch+".tar.gz"), "-C", agents)
		mustIn(t, filepath.Join(agents, arch), nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		g.Expect(filepath.Join(agents, arch, "ramdisk")).To(BeARegularFile())
	}
	notes, err := os.ReadFile(filepath.Join(r.page, "release-notes.md"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(notes)).To(And(ContainSubstring("### Added"), Not(ContainSubstring("\n## "))))
}

// index is an OCI image index.
type index struct {
	MediaType string `json:"mediaType"`
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			Architecture string `json:"architecture"`
			OS           string `json:"os"`
		} `json:"platform"`
	} `json:"manifests"`
}

// Skopeo finds an image for each architecture in the archive, copies all of it with the same digest, and each image has programs of its architecture.
func (r *released) testIndex(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(r.page, "cluster-api-provider-baremetal-image.tar")
	raw := must(t, "skopeo", "inspect", "--raw", "oci-archive:"+file)
	sum := sha256.Sum256([]byte(raw))
	g.Expect("sha256:" + hex.EncodeToString(sum[:])).To(Equal(r.digest))
	var i index
	g.Expect(json.Unmarshal([]byte(raw), &i)).To(Succeed())
	g.Expect(i.MediaType).To(Equal("application/vnd.oci.image.index.v1+json"))
	g.Expect(i.Manifests).To(HaveLen(2))

	// dir: is a registry in a folder: it has the same manifests.
	copied := t.TempDir()
	must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests", "oci-archive:"+file, "dir:"+copied)
	content, err := os.ReadFile(filepath.Join(copied, "manifest.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(raw))
	for n, arch := range []string{"amd64", "arm64"} {
		m := i.Manifests[n]
		g.Expect(m.Platform.OS + "/" + m.Platform.Architecture).To(Equal("linux/" + arch))
		g.Expect(filepath.Join(copied, strings.TrimPrefix(m.Digest, "sha256:")+".manifest.json")).To(BeAnExistingFile())
		root := unpack(t, file, arch)
		for _, program := range []string{"manager", "usr/bin/ipmitool"} {
			f, err := elf.Open(filepath.Join(root, program))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.Machine).To(Equal(machines[arch]), program)
			g.Expect(f.Close()).To(Succeed())
		}
		for _, of := range []string{"amd64", "arm64"} {
			mustIn(t, filepath.Join(root, "usr/lib/capbm/agent", of), nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		}
	}
}

// The manifests name the image by the digest of the index, on the page and in the repository.
func (r *released) testManifests(t *testing.T) {
	g := NewWithT(t)
	for folder, files := range map[string][]string{
		r.page: {"infrastructure-components.yaml", "single-pod-components.yaml", "boot-components.yaml", "bootstrap-components.yaml"},
		filepath.Join(r.folder, provider.Infrastructure, imageVersion): {"infrastructure-components.yaml"},
		filepath.Join(r.folder, provider.Bootstrap, imageVersion):      {"bootstrap-components.yaml"},
	} {
		for _, file := range files {
			content, err := os.ReadFile(filepath.Join(folder, file))
			g.Expect(err).NotTo(HaveOccurred())
			found := 0
			for line := range strings.Lines(string(content)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok {
					g.Expect(name).To(Equal(imageName+"@"+r.digest), file)
					found++
				}
			}
			g.Expect(found).To(BeNumerically(">", 0), file)
		}
	}
}

// The programs are linked statically, for their platform, and know their version.
func (r *released) testPrograms(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"bmcctl", "bmcsim"} {
		g.Expect(must(t, filepath.Join(r.page, name+"-linux-amd64"), "--version")).To(HavePrefix(name + " " + imageVersion + " (commit " + sourceOf(t).revision + ", go1."))
		for _, platform := range platforms {
			isFor(t, filepath.Join(r.page, name+"-"+strings.ReplaceAll(platform, "/", "-")), platform)
		}
	}
	for _, platform := range platforms {
		plugin := t.TempDir()
		must(t, "tar", "-xzf", filepath.Join(r.page, "kubectl-baremetal-"+strings.ReplaceAll(platform, "/", "-")+".tar.gz"), "-C", plugin)
		isFor(t, filepath.Join(plugin, "kubectl-baremetal"), platform)
		g.Expect(filepath.Join(plugin, "LICENSE")).To(BeARegularFile())
		g.Expect(filepath.Join(plugin, "kubectl_complete-baremetal")).To(BeARegularFile())
	}
	// The program whose first build is quicker.
	folder := t.TempDir()
	mustIn(t, controllerstest.Root(), nil, "hack/programs.sh", imageVersion, sourceOf(t).revision, "darwin/arm64", folder, "bmcsim")
	isFor(t, filepath.Join(folder, "bmcsim"), "darwin/arm64")
}

// isFor checks the platform of a program, and that on Linux it needs no library.
func isFor(t *testing.T, file, platform string) {
	t.Helper()
	g := NewWithT(t)
	system, arch, _ := strings.Cut(platform, "/")
	if system == "darwin" {
		f, err := macho.Open(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.Cpu).To(Equal(map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[arch]))
		g.Expect(f.Close()).To(Succeed())
		return
	}
	f, err := elf.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.Machine).To(Equal(machines[arch]))
	g.Expect(f.ImportedLibraries()).To(BeEmpty())
	g.Expect(f.Close()).To(Succeed())
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// The SPDX project's own validator accepts the SBOMs.
func (r *released) testSBOMs(t *testing.T) {
	g := NewWithT(t)
	sboms, err := filepath.Glob(filepath.Join(r.page, "*.spdx.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sboms).To(HaveLen(3))
	for _, file := range sboms {
		must(t, filepath.Join(controllerstest.Root(), ".cache", "spdxtools", "bin", "pyspdxtools"), "--infile", file)
	}
}

// sha256sum and openssl notice a changed file, and a changed list of checksums. The form of the signature is the one that cosign reads too.
func (r *released) testSignature(t *testing.T) {
	g := NewWithT(t)
	try := func(name string, args ...string) error {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = r.page
		return command.Run()
	}
	checksums := func() error { return try("sha256sum", "--check", "--strict", "--status", "checksums.txt") }
	signature := func() error {
		return try("openssl", "dgst", "-sha256", "-verify", r.public, "-signature", "checksums.txt.sig", "checksums.txt")
	}
	g.Expect(checksums()).To(Succeed())
	g.Expect(signature()).To(Succeed())

	change := func(name string) {
		file, err := os.OpenFile(filepath.Join(r.page, name), os.O_APPEND|os.O_WRONLY, 0)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString("\n")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(file.Close()).To(Succeed())
	}
	change("metadata.yaml")
	g.Expect(checksums()).NotTo(Succeed())
	g.Expect(signature()).To(Succeed())
	change("checksums.txt")
	g.Expect(signature()).NotTo(Succeed())
}

// TestReleaseRefuses: what cannot be released ends with the reason before anything is built, and leaves nothing.
func TestReleaseRefuses(t *testing.T) {
	private, public := keys(t, elliptic.P384())
	for name, test := range map[string]struct{ version, image, environment, says string }{
		"no version":        {"0.1.0", imageName, "", "VERSION is like v0.1.0"},
		"no series":         {"v99.0.0", imageName + "@sha256:" + strings.Repeat("0", 64), "", "metadata.yaml has no release series 99.0"},
		"no notes":          {"v0.1.99", imageName, "", "CHANGELOG.md has no section"},
		"no tag":            {imageVersion, "registry.example:5000/capbm", "", "IMAGE has no tag"},
		"no digest":         {imageVersion, imageName + "@sha256:0", "", "IMAGE has the digest sha256:0"},
		"another curve":     {imageVersion, imageName, "RELEASE_KEY=" + private, "is no private key of ECDSA P-256"},
		"a public key":      {imageVersion, imageName, "RELEASE_KEY=" + public, "is no private key of ECDSA P-256"},
		"a key that is not": {imageVersion, imageName, "RELEASE_KEY=/none", "is no private key of ECDSA P-256"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			folder := t.TempDir()
			command := releaseCommand(t, controllerstest.Root(), []string{test.environment}, folder, test.version, test.image)
			g.Expect(command.Run()).NotTo(Succeed())
			g.Expect(command.Stderr).To(HaveField("String()", ContainSubstring(test.says)))
			left, err := filepath.Glob(filepath.Join(folder, "release", "*"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left).To(BeEmpty())
		})
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The markers of the generated part of a page. What is outside of them is written by hand.
const (
	generatedStart = "<!-- generated: make generate -->\n"
	generatedEnd   = "<!-- end of generated -->\n"
)

// reference returns the pages of docs/reference with a generated part, by their paths below root.
func reference(ctx context.Context, root string) (map[string]string, error) {
	p, err := buildPrograms(ctx, root)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(p.folder) //nolint:errcheck // a folder of temporary files
	pages := map[string]string{}
	for name, generate := range map[string]func(context.Context) (string, error){
		"docs/reference/manager.md": p.managerFlags, "docs/reference/bmcctl.md": p.bmcctlHelp, "docs/reference/bmcsim.md": p.bmcsimHelp,
		"docs/reference/kubectl-baremetal.md": p.pluginHelp,
	} {
		text, err := generate(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) //nolint:gosec // one of four names
		if err != nil {
			return nil, err
		}
		if pages[name], err = replaceGenerated(string(page), text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(reasonsPage))) //nolint:gosec // a page of this project
	if err != nil {
		return nil, err
	}
	if pages[reasonsPage], err = replaceReasons(string(page)); err != nil {
		return nil, fmt.Errorf("%s: %w", reasonsPage, err)
	}
	return pages, nil
}

// replaceGenerated replaces the generated part of a page.
func replaceGenerated(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, generatedStart)
	_, after, ok2 := strings.Cut(rest, generatedEnd)
	if !ok || !ok2 || strings.Contains(after, generatedStart) {
		return "", fmt.Errorf("the page needs one line %q and, after it, one line %q", strings.TrimSpace(generatedStart), strings.TrimSpace(generatedEnd))
	}
	return before + generatedStart + "\n" + strings.TrimSpace(text) + "\n\n" + generatedEnd + after, nil
}

// programs are the programs of cmd, in a temporary folder.
type programs struct{ folder string }

func buildPrograms(ctx context.Context, root string) (*programs, error) {
	folder, err := os.MkdirTemp("", "docs-")
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-o", folder, "./cmd/manager", "./cmd/bmcctl", "./cmd/bmcsim", "./cmd/kubectl-baremetal") //nolint:gosec // a folder of its own
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return &programs{folder}, nil
}

// help returns the help of a command.
func (p *programs) help(ctx context.Context, program string, command ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(p.folder, program), append(command, "--help")...) //nolint:gosec // it was built above
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{} // no default follows from the environment
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s --help: %w: %s", program, strings.Join(command, " "), err, errs.String())
	}
	return out.String(), nil
}

// helpBlock returns the help of a command as a block of text.
func (p *programs) helpBlock(ctx context.Context, program string, command ...string) (string, error) {
	text, err := p.help(ctx, program, command...)
	return "```text\n" + strings.TrimRight(text, "\n") + "\n```\n", err
}

func (p *programs) bmcsimHelp(ctx context.Context) (string, error) { return p.helpBlock(ctx, "bmcsim") }

func (p *programs) bmcctlHelp(ctx context.Context) (string, error) {
	text, err := p.helpBlock(ctx, "bmcctl")
	blocks := []string{text}
	for _, command := range []string{"probe", "qualify", "plan", "profile", "media", "inventory", "erasures"} {
		if err != nil {
			return "", err
		}
		text, err = p.helpBlock(ctx, "bmcctl", command)
		blocks = append(blocks, fmt.Sprintf("### bmcctl %s\n\n%s", command, text))
	}
	return strings.Join(blocks, "\n"), err
}

// The lists of commands in a help text of the plugin, and the names in them.
var (
	commandList = regexp.MustCompile(`(?m)^(?:Commands|Commands that [a-z ]+):\n((?:  .*\n)+)`)
	commandName = regexp.MustCompile(`(?m)^  ([a-z-]+) `)
)

// pluginHelp returns the help of kubectl-baremetal and of each of its commands.
func (p *programs) pluginHelp(ctx context.Context) (string, error) {
	blocks, err := p.helpTree(ctx, nil)
	return strings.Join(blocks, "\n"), err
}

// helpTree returns the help of a command of the plugin, and of the commands below it.
func (p *programs) helpTree(ctx context.Context, path []string) ([]string, error) {
	text, err := p.helpBlock(ctx, "kubectl-baremetal", path...)
	if err != nil {
		return nil, err
	}
	block := text
	if len(path) > 0 {
		block = fmt.Sprintf("### kubectl baremetal %s\n\n%s", strings.Join(path, " "), text)
	}
	blocks := []string{block}
	for _, list := range commandList.FindAllStringSubmatch(text, -1) {
		for _, name := range commandName.FindAllStringSubmatch(list[1], -1) {
			more, err := p.helpTree(ctx, append(slices.Clone(path), name[1]))
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, more...)
		}
	}
	return blocks, nil
}

func (p *programs) managerFlags(ctx context.Context) (string, error) {
	text, err := p.help(ctx, "manager")
	if err != nil {
		return "", err
	}
	groups := parseFlags(text)
	if len(groups) == 0 {
		return "", fmt.Errorf("manager --help has no groups of flags: %.200q", text)
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "### %s\n\n| flag | type | default | meaning |\n| --- | --- | --- | --- |\n", g.title)
		for _, f := range g.flags {
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.name, f.kind, f.preset, strings.ReplaceAll(f.meaning, "|", `\|`))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

type (
	flagGroup struct {
		title string
		flags []describedFlag
	}
	describedFlag struct{ name, kind, preset, meaning string }
)

var (
	groupLine   = regexp.MustCompile(`^([A-Z][^:]*):$`)
	flagLine    = regexp.MustCompile(`^ {2,6}(?:-\w, )?--([a-z0-9-]+)(?: (\S+))? {3,}(\S.*)$`)
	presetParts = regexp.MustCompile(`^(.*) \(default (?:"(.*)"|\[(.*)\]|(.*))\)$`)
)

// zeroes are the defaults that pflag does not print, because they are the zero values of their types.
var zeroes = map[string]string{"bool": "false", "level": "0"}

// parseFlags reads the groups of flags of a help text.
func parseFlags(help string) []flagGroup {
	var groups []flagGroup
	var current *describedFlag
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if title := groupLine.FindStringSubmatch(line); title != nil {
			groups, current = append(groups, flagGroup{title: title[1]}), nil
			continue
		}
		if len(groups) == 0 || line == "" {
			continue
		}
		g := &groups[len(groups)-1]
		if f := flagLine.FindStringSubmatch(line); f != nil {
			g.flags = append(g.flags, describedFlag{name: f[1], kind: cmp.Or(f[2], "bool"), meaning: f[3]})
			current = &g.flags[len(g.flags)-1]
		} else if current != nil { // pflag wraps long lines
			current.meaning += " " + strings.TrimSpace(line)
		}
	}
	for _, g := range groups {
		for i := range g.flags {
			g.flags[i].splitDefault()
		}
	}
	return groups
}

// splitDefault moves the default from the end of the meaning to its own field.
func (f *describedFlag) splitDefault() {
	preset := zeroes[f.kind]
	if parts := presetParts.FindStringSubmatch(f.meaning); parts != nil {
		f.meaning, preset = parts[1], cmp.Or(parts[2], parts[3], parts[4])
	}
	if preset != "" {
		f.preset = "`" + preset + "`"
	}
}

package modules

import "strings"

// parameters returns the parameters of a module: those that have its name and a dot before them on the command line of the kernel, which leaves them to the program
// that loads modules (admin-guide/kernel-parameters.rst of Linux).
func parameters(module, commandLine string) string {
	var out []string
	for word := range strings.FieldsSeq(commandLine) {
		if name, parameter, found := strings.Cut(word, "."); found && strings.ReplaceAll(name, "-", "_") == module {
			out = append(out, parameter)
		}
	}
	if module == "bonding" {
		out = append(out, "max_bonds=0") // otherwise it creates a bond0 that nobody asked for
	}
	return strings.Join(out, " ")
}

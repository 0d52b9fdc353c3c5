// Package why explains the state of an object: what is wanted, what is waited for, since when, how long that takes usually, the likeliest cause, and one next
// command. It is pure: the caller reads the objects.
//
// Two things make an explanation. The table (Tables) has one Row for each reason and each phase of each kind: its meaning, what to do, the likeliest cause, the
// usual time, and the next command. docs/reference/conditions.md is generated from it, so page and explanation cannot disagree. The usual times are static: no
// history is stored. The second is the chain of objects of one machine (Objects), from the Cluster down to the host and its boot. Explain walks it in the order in
// which a machine needs its objects, and stops at the first that is not as it should be: that object has the reason. What the boot of a server waits for comes from the
// tables of package lifecycle, and what keeps a machine from each host from package claim: nothing is decided twice.
//
// Objects may be missing, because they do not exist, or the user may not read them. Then the last object that was read has the reason, and the Explanation repeats
// what was not read (Unread). It says Unknown, and never Done, if that could hide a cause.
//
// A Cluster, a MachineDeployment and a control plane have many machines. The caller explains one chain for each machine, and takes the first by Compare.
//
// Texts of objects are untrusted: they are cut to MaxText bytes and one line, and the credentials in URLs are removed. Secrets are no input.
package why

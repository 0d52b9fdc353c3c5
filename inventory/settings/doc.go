// Package settings plans changes of the firmware settings of a server: its BIOS attributes (DSP0268, Bios and AttributeRegistry) and Secure Boot. It compares
// what a profile wishes with what the BMC reports, and says what differs, what is refused and why, what else changes, and whether the server has to be
// restarted. It is pure: it does no I/O, and the same input gives the same plan. Rollout limits how many hosts are changed at once.
package settings

package bmclib

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The power states of CIM_AssociatedPowerManagementService.PowerState, which are also the requestable states (DMTF, CIM schema 2).
const (
	amtOn                  = 2
	amtSleepLight          = 3
	amtSleepDeep           = 4
	amtCycleSoft           = 5
	amtOffHard             = 6
	amtHibernate           = 7
	amtOffSoft             = 8
	amtCycleHard           = 9
	amtReset               = 10
	amtNMI                 = 11
	amtOffSoftGraceful     = 12
	amtOffHardGraceful     = 13
	amtResetGraceful       = 14
	amtCycleSoftGraceful   = 15
	amtCycleHardGraceful   = 16
	amtDiagnosticInterrupt = 17
)

// powerService is the class with the power state and the requestable states.
const powerService = "CIM_AssociatedPowerManagementService"

// maxDepth is the maximum nesting depth of a response. AMT's responses have about ten levels.
const maxDepth = 32

// amtOff are the states in which a server is certainly off. A hibernated server has no power, and its memory is on disk.
var amtOff = []int{amtOffHard, amtHibernate, amtOffSoft, amtOffSoftGraceful, amtOffHardGraceful}

// soapResult is the content of a response besides its body.
type soapResult struct {
	// fault is the text of a SOAP fault, its codes first.
	fault string
	// noneOffered is true if the response offers power states, but none of the wanted ones.
	noneOffered bool
}

// normalize reads a response of AMT, and changes it for iamt (d7cdbe67d9ef):
//
//   - PowerState becomes 2, on, unless the server is certainly off. iamt reports all other states as off, such as a sleeping server
//     and one during a reset. A response without the state, or with an unknown state, is an error.
//   - AvailableRequestedPowerStates that are not in states are removed. If states is nil, all remain.
//
// Both contain a number: elements in them are an error.
//
// A ReturnValue that is not 0 is an error, because iamt ignores that of a power command. Deep nesting is an error, because iamt prints every
// response with indentation. Delete when iamt reads all power states and return values.
func normalize(body []byte, states []int) ([]byte, soapResult, error) {
	n := &normalizer{states: states, body: body}
	d := xml.NewDecoder(bytes.NewReader(body))
	for {
		from := d.InputOffset()
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, n.result, errors.New("the answer is not the XML of AMT")
		}
		if err := n.token(token, from, d.InputOffset()); err != nil {
			return nil, n.result, err
		}
	}
	n.result.noneOffered = states != nil && n.service && !n.found
	return append(n.out, body[n.copied:]...), n.result, nil
}

type normalizer struct {
	states []int
	body   []byte
	out    []byte
	// copied is the length of the part of the body that is copied or removed.
	copied int64
	stack  []element
	// service is true once there was a power service, and states counts the power states of the last. found is true once one of
	// the ways was offered.
	service    bool
	stateCount int
	found      bool
	result     soapResult
}

// element is an open element.
type element struct {
	name          string
	from, content int64 // offsets of its start and of its content
	text          []byte
}

func (n *normalizer) token(token xml.Token, from, to int64) error {
	switch t := token.(type) {
	case xml.StartElement:
		if len(n.stack) == maxDepth {
			return errors.New("the answer is nested too deeply")
		}
		if n.within("PowerState") || n.within("AvailableRequestedPowerStates") {
			return errors.New("the answer has an element in the place of a power state") // replacing both would corrupt the offsets
		}
		if t.Name.Local == powerService {
			n.service, n.stateCount = true, 0
		}
		n.stack = append(n.stack, element{name: t.Name.Local, from: from, content: to})
	case xml.CharData:
		if len(n.stack) > 0 {
			e := &n.stack[len(n.stack)-1]
			e.text = append(e.text, t...)
		}
	case xml.EndElement:
		e := &n.stack[len(n.stack)-1]
		name, text, begin, content := e.name, strings.TrimSpace(string(e.text)), e.from, e.content
		n.stack = n.stack[:len(n.stack)-1]
		return n.element(name, text, begin, content, from, to)
	}
	return nil
}

// within is true if the innermost open element has the name.
func (n *normalizer) within(name string) bool {
	return len(n.stack) > 0 && n.stack[len(n.stack)-1].name == name
}

// element handles the end of an element. Its content extends from content to end.
func (n *normalizer) element(name, text string, from, content, end, to int64) error {
	switch {
	case n.inFault() && text != "":
		n.result.fault = strings.TrimSpace(n.result.fault + " " + text)
	case name == "ReturnValue" && text != "0":
		kind := bmc.Failed
		if text == "1" { // "not supported" in CIM
			kind = bmc.Unsupported
		}
		return &bmc.Error{Kind: kind, Op: "Exchange", Err: fmt.Errorf("AMT refused the command with ReturnValue %s", shorten(text))}
	case name == powerService && n.stateCount != 1:
		return errors.New("the answer does not contain the power state")
	case !n.within(powerService):
	case name == "AvailableRequestedPowerStates":
		state, err := strconv.Atoi(text)
		if err == nil && (n.states == nil || slices.Contains(n.states, state)) {
			n.found = true
			return nil
		}
		n.replace(from, to, "")
	case name == "PowerState":
		n.stateCount++
		state, err := strconv.Atoi(text)
		if err != nil || state < amtOn || state > amtDiagnosticInterrupt {
			return fmt.Errorf("the answer has the power state %q", shorten(text))
		}
		normalized := amtOn
		if slices.Contains(amtOff, state) {
			normalized = amtOffSoft
		}
		n.replace(content, end, strconv.Itoa(normalized))
	}
	return nil
}

func (n *normalizer) inFault() bool {
	return slices.ContainsFunc(n.stack, func(e element) bool { return e.name == "Fault" })
}

// replace replaces a part of the body.
func (n *normalizer) replace(from, to int64, text string) {
	n.out = append(n.out, n.body[n.copied:from]...)
	n.out = append(n.out, text...)
	n.copied = to
}

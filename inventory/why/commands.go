package why

import (
	"strings"
)

// Command is the template of a next command. A name in braces is replaced by the name of an object that was read.
type Command string

// The commands. {kind} and {name} are the object that has the reason. None ends a protection, such as a quarantine: its cause
// is to be removed before, so Row.Do has that verb.
const (
	describeObject       Command = "kubectl describe {kind} {name} -n {namespace}"
	describeBoot         Command = "kubectl describe baremetalboot {boot} -n {namespace}"
	describeHost         Command = "kubectl describe baremetalhost {host} -n {namespace}"
	describeMachine      Command = "kubectl describe machine {machine} -n {namespace}"
	describeCluster      Command = "kubectl describe cluster {cluster} -n {namespace}"
	describeInfraCluster Command = "kubectl describe baremetalcluster {infracluster} -n {namespace}"
	describeOwner        Command = "kubectl describe {ownerkind} {owner} -n {namespace}"
	deleteMachine        Command = "kubectl delete machine {machine} -n {namespace}"
	editHost             Command = "kubectl edit baremetalhost {host} -n {namespace}"
	editSecret           Command = "kubectl edit secret {secret} -n {namespace}" // of the BMC
	editInfraCluster     Command = "kubectl edit baremetalcluster {infracluster} -n {namespace}"
	listHosts            Command = "kubectl get baremetalhosts -n {namespace} -o wide"
	describeSettings     Command = "kubectl describe baremetalsettings {host} -n {namespace}"
	listSettings         Command = "kubectl get baremetalsettings -n {namespace}"
	listProfiles         Command = "kubectl get baremetalprofiles -n {namespace}"
	listBoots            Command = "kubectl get baremetalboots -n {namespace}"
	managerLog           Command = "kubectl logs deployment/capbm-controller-manager -n capbm-system"
	bootLog              Command = "kubectl logs deployment/capbm-boot -n capbm-system --container manager"
	imagesLog            Command = "kubectl logs deployment/capbm-boot -n capbm-system --container images"
	whyHost              Command = "kubectl baremetal why baremetalhost/{host} -n {namespace}"
	events               Command = "kubectl baremetal events {host} -n {namespace}"
	powerStatus          Command = "kubectl baremetal power status {host} -n {namespace}"
	powerOn              Command = "kubectl baremetal power on {host} -n {namespace}"
	inspect              Command = "kubectl baremetal inspect {host} -n {namespace}"
)

// command fills a template with the names of the objects that were read. If it needs another object, the result describes the object that has the reason.
func (o *Objects) command(template Command, at Ref) string {
	if o.Host != nil {
		template = Command(strings.ReplaceAll(string(template), "{secret}", o.Host.Spec.BMC.CredentialsSecretName))
	}
	if filled := fill(template, at, o.refs()); !strings.Contains(filled, "{") {
		return filled
	}
	return fill(describeObject, at, nil)
}

// placeholders are the placeholders of kinds of which a chain has one object.
var placeholders = map[string]string{
	KindCluster: "{cluster}", KindBareMetalCluster: "{infracluster}", KindMachine: "{machine}", KindHost: "{host}", KindBoot: "{boot}",
}

func fill(template Command, at Ref, refs []Ref) string {
	pairs := []string{"{kind}", strings.ToLower(at.Kind), "{name}", at.Name, "{namespace}", at.Namespace}
	for _, ref := range refs {
		if placeholder := placeholders[ref.Kind]; placeholder != "" && !ref.isOwner {
			pairs = append(pairs, placeholder, ref.Name)
		}
		if ref.isOwner {
			pairs = append(pairs, "{ownerkind}", strings.ToLower(ref.Kind), "{owner}", ref.Name)
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(template))
}

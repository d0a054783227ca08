package plugin

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// nodesOfPlugins returns the nodes on which device plugins serve the extended resources of a pod
// that a DeviceClass maps too; nil if it requests none. NodeResourcesFit ignores such a resource on
// a node without a plugin, because the plugin DynamicResources would make a claim for it. Without
// that plugin the pod would start without a device.
func (p *Plugin) nodesOfPlugins(pod *v1.Pod, nodes []fwk.NodeInfo) (sets.Set[string], *fwk.Status) {
	mapped, status := p.mappedResources(pod)
	if status != nil || len(mapped) == 0 {
		return nil, status
	}
	served := sets.New[string]()
	for _, node := range nodes {
		if servesAll(node.Node(), mapped) {
			served.Insert(node.Node().Name)
		}
	}
	if served.Len() > 0 {
		return served, nil
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(
		"the scheduler %s does not allocate the extended resource %s, which a DeviceClass maps and no device plugin "+
			"serves; %s", pod.Spec.SchedulerName, mapped[0], remedyFor(mapped[0], pod.Namespace)))
}

// remedyFor returns what to do about a mapped resource; admission does not translate implicit names.
func remedyFor(name v1.ResourceName, namespace string) string {
	if isImplicit(name) {
		return "request the devices by a ResourceClaim, or create the pod with the default scheduler"
	}
	return fmt.Sprintf("label the namespace %s with drawbridge.dev/translate=enforce and create the pod again, so that "+
		"admission translates the request to a ResourceClaim", namespace)
}

// servedNodes are the names of the nodes that nodesOfPlugins returned in this scheduling cycle.
type servedNodes sets.Set[string]

// Clone returns the nodes themselves, because nothing changes them.
func (s servedNodes) Clone() fwk.StateData {
	return s
}

// isServed returns whether device plugins serve the mapped resources of the pod on a node, if it requests any.
func isServed(state fwk.CycleState, node fwk.NodeInfo) bool {
	data, err := state.Read(servedKey)
	if err != nil {
		return true
	}
	served, _ := data.(servedNodes)
	_, found := served[node.Node().Name]
	return found
}

// mappedResources returns the extended resources of a pod that a DeviceClass maps.
func (p *Plugin) mappedResources(pod *v1.Pod) ([]v1.ResourceName, *fwk.Status) {
	requested := extendedResources(pod)
	if len(requested) == 0 {
		return nil, nil
	}
	classes, err := p.cluster.classes()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("list DeviceClasses: %w", err))
	}
	var mapped []v1.ResourceName
	for _, name := range sets.List(requested) {
		if isMapped(name, classes) {
			mapped = append(mapped, name)
		}
	}
	return mapped, nil
}

// extendedResources returns the names with a domain that the containers request.
func extendedResources(pod *v1.Pod) sets.Set[v1.ResourceName] {
	names := sets.New[v1.ResourceName]()
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for index := range containers {
			for name, amount := range containers[index].Resources.Requests {
				if strings.Contains(string(name), "/") && !amount.IsZero() {
					names.Insert(name)
				}
			}
		}
	}
	return names
}

func isImplicit(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}

func isMapped(name v1.ResourceName, classes []*resourceapi.DeviceClass) bool {
	if isImplicit(name) {
		return true
	}
	for _, class := range classes {
		if class.Spec.ExtendedResourceName != nil && *class.Spec.ExtendedResourceName == string(name) {
			return true
		}
	}
	return false
}

func servesAll(node *v1.Node, names []v1.ResourceName) bool {
	for _, name := range names {
		if amount := node.Status.Allocatable[name]; amount.IsZero() {
			return false
		}
	}
	return true
}

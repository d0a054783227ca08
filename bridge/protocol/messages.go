// Package protocol holds the calls between the scheduler plugin and the allocator.
//
// HTTP/1.1 and JSON over a unix socket. Each call can be repeated; the UID of the pod identifies
// what it is about. The allocator is allocator/protocol.py of the same repository.
package protocol

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

const (
	// Header carries the version in every request and response.
	Header = "Drawbridge-Protocol"
	// MaxMessageBytes limits the body of a request and of a response.
	MaxMessageBytes = 4 << 20

	statusPath     = "/v1/status"
	preFilterPath  = "/v1/prefilter"
	reservePath    = "/v1/reserve"
	unreservePath  = "/v1/unreserve"
	bindPath       = "/v1/bind"
	postFilterPath = "/v1/postfilter"
	preemptPath    = "/v1/preempt"
	groupPath      = "/v1/prefilterGroup"
	eventsPath     = "/v1/events"
)

// StatusRequest names the pods that the scheduler holds between Reserve and Bind, by UID. An allocator
// of 1.1 does not read it.
type StatusRequest struct {
	HeldPods []string `json:"heldPods"`
}

// Status says whether the allocator answers.
type Status struct {
	Ready   bool     `json:"ready"`
	Leading bool     `json:"leading"`
	Reasons []string `json:"reasons"`
}

// Pod is what the allocator reads of a pod that is being scheduled.
type Pod struct {
	Namespace    string            `json:"namespace"`
	Name         string            `json:"name"`
	UID          string            `json:"uid"`
	Priority     int32             `json:"priority"`
	NodeSelector map[string]string `json:"nodeSelector"`
	NodeAffinity *v1.NodeAffinity  `json:"nodeAffinity"`
	Tolerations  []v1.Toleration   `json:"tolerations"`
	NodeName     string            `json:"nodeName"`
	// ClaimsOfGroup is nil if all claims are reserved for the pod itself. An allocator of 1.2 does not
	// read it.
	ClaimsOfGroup *ClaimsOfGroup `json:"claimsOfGroup,omitempty"`
}

// ClaimsOfGroup is a PodGroup of Kubernetes, and the UIDs of the claims of a pod that are reserved for it.
type ClaimsOfGroup struct {
	Name   string   `json:"name"`
	UID    string   `json:"uid"`
	Claims []string `json:"claims"`
}

// PreFilterRequest asks on which nodes the claims of a pod can be allocated now.
type PreFilterRequest struct {
	Pod    Pod                          `json:"pod"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
	// MaxNodes limits the nodes in the reply; 0 asks for every node that fits.
	MaxNodes int `json:"maxNodes"`
	// Group is nil for a pod alone. An allocator of 1.2 does not read it.
	Group *Group `json:"group,omitempty"`
	// Reserve asks for a reservation on the best node, so that Reserve needs no call there. An
	// allocator of 1.2 does not read it.
	Reserve bool `json:"reserve,omitempty"`
}

// Group names the group of a pod.
type Group struct {
	Key string `json:"key"`
	// MinCount is how many members must run together; 0 means those that exist.
	MinCount int `json:"minCount"`
	// Scheduled is how many members have a node, or are between Reserve and Bind.
	Scheduled int `json:"scheduled"`
}

// PartialKind is the kind of a claim of which only the metadata is sent.
const PartialKind = "PartialObjectMetadata"

// GroupMember is a member of a group that has no node.
type GroupMember struct {
	Pod    Pod                          `json:"pod"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
}

// PreFilterGroupRequest asks for devices for all members of a group; the reply is about one of them.
type PreFilterGroupRequest struct {
	PodUID   string        `json:"podUID"`
	Group    *Group        `json:"group"`
	Members  []GroupMember `json:"members"`
	MaxNodes int           `json:"maxNodes"`
}

// PreFilterReply names nodes that fit, best first or in any order.
type PreFilterReply struct {
	Fit []NodeScore `json:"fit"`
	// Complete is true if no other node fits.
	Complete bool   `json:"complete"`
	Message  string `json:"message"`
	// Preemptible is true if the plugin may ask for victims. An allocator of 1.0 never says so.
	Preemptible bool `json:"preemptible"`
	// GroupPreemptible is true if the plugin may ask for victims for all members of the group.
	GroupPreemptible bool `json:"groupPreemptible"`
	// MembersNeeded is true if the allocator decides about all members of the group together, and is
	// asked about them next; in a reply about them, if it has not seen all of their claims.
	MembersNeeded bool `json:"membersNeeded"`
	// PartialClaims is true if claims of members can be sent as PartialObjectMetadata.
	PartialClaims bool `json:"partialClaims"`
	// ReservedOn is the node on which devices are reserved for the pod for a short time, if any.
	ReservedOn string `json:"reservedOn"`
}

// NodeScore is a node and its score, 0 to 100.
type NodeScore struct {
	Node  string `json:"node"`
	Score int64  `json:"score"`
}

// PodOnNode is the request of reserve and bind.
type PodOnNode struct {
	PodUID string `json:"podUID"`
	Node   string `json:"node"`
}

// PodReference is the request of postfilter.
type PodReference struct {
	PodUID string `json:"podUID"`
}

// UnreserveRequest takes the promise for a pod back.
type UnreserveRequest struct {
	PodUID string `json:"podUID"`
	// Cycle is true in a cycle for the group of the pod. An allocator of 1.2 reads neither.
	Cycle bool `json:"cycle"`
	// Hold is true if enough members fitted in this cycle: the scheduler reserves them again at once.
	Hold bool `json:"hold"`
}

// ReserveReply says whether the devices are promised to the pod.
type ReserveReply struct {
	Reserved bool   `json:"reserved"`
	Message  string `json:"message"`
}

// BindReply says whether the claims are allocated and the pod is bound.
type BindReply struct {
	Bound   bool   `json:"bound"`
	Message string `json:"message"`
}

// PostFilterReply names the claims whose allocation is taken back.
type PostFilterReply struct {
	Released []string `json:"released"`
	Message  string   `json:"message"`
}

// PreemptRequest asks which pods must be evicted so that the claims of a pod can be allocated.
type PreemptRequest struct {
	PodUID string           `json:"podUID"`
	Nodes  []PreemptionNode `json:"nodes"`
}

// Size returns how many bytes the request has.
func (r *PreemptRequest) Size() int {
	encoded, _ := json.Marshal(r) // texts and numbers
	return len(encoded)
}

// PreemptionNode is a node that the pod can use without these pods, apart from devices. The pods are
// in the order in which they are kept if possible.
type PreemptionNode struct {
	Node string            `json:"node"`
	Pods []PotentialVictim `json:"pods"`
	// Running are all pods with claims on the node; the scheduler has seen that all others are deleted.
	Running []string `json:"running"`
}

// PotentialVictim is a pod with a lower priority.
type PotentialVictim struct {
	UID       string `json:"uid"`
	Priority  int32  `json:"priority"`
	StartTime string `json:"startTime"`
	// Violates is true if its eviction violates a PodDisruptionBudget.
	Violates bool `json:"violates"`
	// Required is true if the pod must be evicted for a reason other than devices.
	Required bool `json:"required"`
}

// PreemptReply names the best node and the pods that must go there for devices, or says why none.
type PreemptReply struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
	// Evictions are those for a group; they have no node above.
	Evictions []Eviction `json:"evictions"`
	// Waiting is true if devices for the pod are free or being released already.
	Waiting bool `json:"waiting"`
	// Unfinished is true if the search took too long; it continues with the next call.
	Unfinished bool   `json:"unfinished"`
	Message    string `json:"message"`
}

// Eviction names the pods that must go from a node for the devices of a group.
type Eviction struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
}

// Event is one line of the event stream; a line without content is a heartbeat.
type Event struct {
	Activate    []string `json:"activate"`
	ActivateAll bool     `json:"activateAll"`
}

package plugin

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// claimName is the name of a claim of a pod, its name in spec.resourceClaims, and whether the pod or its
// group must own it.
type claimName struct {
	name  string
	entry string
	owned bool
}

// claimNames returns the claims of a pod in the order of spec.resourceClaims. It fails while one is
// not created yet. An entry whose template needs no claim has none.
func claimNames(pod *v1.Pod) ([]claimName, error) {
	names := make([]claimName, 0, len(pod.Spec.ResourceClaims))
	for index := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[index]
		name, owned, err := resourceclaim.Name(pod, entry)
		if err != nil {
			return nil, fmt.Errorf("the ResourceClaim for spec.resourceClaims[%d] (%s) is not created yet; "+
				"check that its ResourceClaimTemplate exists", index, entry.Name)
		}
		if name != nil {
			names = append(names, claimName{name: *name, entry: entry.Name, owned: owned})
		}
	}
	return names, nil
}

// claims returns the claims of a pod; an error says why the pod must wait for them.
func (p *Plugin) claims(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	names, err := claimNames(pod)
	if err != nil {
		return nil, err
	}
	claims := make([]*resourceapi.ResourceClaim, 0, len(names))
	for _, each := range names {
		claim, err := p.cluster.claim(pod.Namespace, each.name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("ResourceClaim %s/%s does not exist; create it", pod.Namespace, each.name)
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Errorf("ResourceClaim %s/%s is being deleted; create it again once it is gone",
				pod.Namespace, each.name)
		case each.owned && !framework.Owns(pod, claim):
			return nil, fmt.Errorf("ResourceClaim %s/%s was not created for this pod or its group; delete the claim or the pod",
				pod.Namespace, each.name)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// claimsOfGroup returns the PodGroup for which claims of the pod are reserved, with the UIDs of these
// claims; nil if there is none.
func (p *Plugin) claimsOfGroup(pod *v1.Pod) (*protocol.ClaimsOfGroup, error) {
	group, err := p.groups.ClaimsOfGroup(pod)
	if err != nil || group == nil {
		return nil, err
	}
	names, err := claimNames(pod)
	if err != nil {
		return nil, err
	}
	found := &protocol.ClaimsOfGroup{Name: group.Name, UID: string(group.UID)}
	for _, each := range names {
		if claim, err := p.cluster.claim(pod.Namespace, each.name); err == nil && slices.Contains(group.Entries, each.entry) {
			found.Claims = append(found.Claims, string(claim.UID))
		}
	}
	return found, nil
}

// usesClaim returns whether a pod refers to a claim.
func usesClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	if pod.Namespace != claim.Namespace {
		return false
	}
	for index := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[index])
		if err == nil && name != nil && *name == claim.Name {
			return true
		}
	}
	return false
}

// metadataOf returns what identifies claims, and who owns them.
func metadataOf(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	partial := make([]*resourceapi.ResourceClaim, 0, len(claims))
	for _, claim := range claims {
		one := &resourceapi.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: protocol.PartialKind}}
		one.Namespace, one.Name, one.UID = claim.Namespace, claim.Name, claim.UID
		one.ResourceVersion, one.OwnerReferences = claim.ResourceVersion, claim.OwnerReferences
		partial = append(partial, one)
	}
	return partial
}

// withoutManagedFields returns the claims as the allocator wants them. The scheduler's objects are
// shared, so nothing in them changes.
func withoutManagedFields(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	sent := make([]*resourceapi.ResourceClaim, 0, len(claims))
	for _, claim := range claims {
		if claim.ManagedFields != nil {
			shallow := *claim
			shallow.ManagedFields = nil
			claim = &shallow
		}
		sent = append(sent, claim)
	}
	return sent
}

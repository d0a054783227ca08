package framework

import "k8s.io/apimachinery/pkg/types"

// ClaimsOfGroup is the PodGroup for which some claims of a pod are reserved, instead of for the pod, and
// the names of these claims in spec.resourceClaims.
type ClaimsOfGroup struct {
	Name    string
	UID     types.UID
	Entries []string
}

//go:build !kubernetes137

package plugin

import (
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// withSnapshot gives the framework the nodes and pods of the cluster.
func withSnapshot(snapshot *schedulercache.Snapshot) []schedulerruntime.Option {
	return []schedulerruntime.Option{schedulerruntime.WithSnapshotSharedLister(snapshot)}
}

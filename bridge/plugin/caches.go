package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"drawbridge.dev/bridge/framework"
)

const (
	uidIndex   = "drawbridge.dev/waiting-uid"
	allIndex   = "drawbridge.dev/waiting"
	groupIndex = "drawbridge.dev/group"
)

// caches are those of the scheduler.
type caches struct {
	handle framework.Handle
	pods   cache.Indexer
	logger klog.Logger
}

func newCaches(ctx context.Context, handle framework.Handle) (*caches, error) {
	informer := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	indexers := informer.GetIndexer().GetIndexers()
	if _, found := indexers[uidIndex]; !found { // a second profile finds the indices of the first
		err := informer.AddIndexers(cache.Indexers{uidIndex: indexByUID, allIndex: indexAll, groupIndex: indexByGroup})
		if err != nil {
			return nil, fmt.Errorf("index the pods of the scheduler: %w", err)
		}
	}
	return &caches{handle: handle, pods: informer.GetIndexer(), logger: klog.FromContext(ctx)}, nil
}

func isWaiting(object any) (*v1.Pod, bool) {
	pod, ok := object.(*v1.Pod)
	return pod, ok && pod.Spec.NodeName == "" && len(pod.Spec.ResourceClaims) > 0
}

func indexByUID(object any) ([]string, error) {
	if pod, ok := isWaiting(object); ok {
		return []string{string(pod.UID)}, nil
	}
	return nil, nil
}

func indexAll(object any) ([]string, error) {
	if pod, ok := isWaiting(object); ok {
		return []string{pod.Spec.SchedulerName}, nil
	}
	return nil, nil
}

func indexByGroup(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok {
		if group := groupOf(pod); group != "" {
			return []string{group}, nil
		}
	}
	return nil, nil
}

func (c *caches) members(group string) []*v1.Pod {
	return c.find(groupIndex, group)
}

func (c *caches) claim(namespace, name string) (*resourceapi.ResourceClaim, error) {
	return c.handle.SharedDRAManager().ResourceClaims().Get(namespace, name)
}

func (c *caches) classes() ([]*resourceapi.DeviceClass, error) {
	return c.handle.SharedDRAManager().DeviceClasses().List()
}

func (c *caches) waiting() []*v1.Pod {
	return c.find(allIndex, c.profile())
}

func (c *caches) waitingWith(uids []string) []*v1.Pod {
	var pods []*v1.Pod
	for _, uid := range uids {
		for _, pod := range c.find(uidIndex, uid) {
			if pod.Spec.SchedulerName == c.profile() {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// profile returns the scheduler name of the profile; Kubernetes 1.34 has it in no interface.
func (c *caches) profile() string {
	if named, ok := c.handle.(interface{ ProfileName() string }); ok {
		return named.ProfileName()
	}
	return ""
}

func (c *caches) find(index, key string) []*v1.Pod {
	objects, err := c.pods.ByIndex(index, key)
	if err != nil {
		c.logger.Error(err, "The index of pods is missing", "index", index)
		return nil
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (c *caches) hasNode(name string) bool {
	_, err := c.handle.SnapshotSharedLister().NodeInfos().Get(name)
	return err == nil
}

func (c *caches) activate(pods []*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	byName := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	c.handle.Activate(c.logger, byName)
}

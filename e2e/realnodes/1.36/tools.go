//go:build tools

// Package kubernetes names what is built, so that go.sum covers it.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)

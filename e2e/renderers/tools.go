//go:build tools

// Package renderers names what is built, so that go.sum covers it.
package renderers

import (
	_ "helm.sh/helm/v4/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)

//go:build tools

// Package example names the programs of the example driver, so that go.sum covers them.
package example

import (
	_ "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"
	_ "sigs.k8s.io/dra-example-driver/cmd/dra-example-webhook"
)

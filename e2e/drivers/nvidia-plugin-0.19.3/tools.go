//go:build tools

// Package plugin names NVIDIA's device plugin, so that go.sum covers them.
package plugin

import (
	_ "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
)

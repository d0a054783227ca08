//go:build tools

// Package nvidia names the programs of NVIDIA's DRA driver, so that go.sum covers them.
package nvidia

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook"
	_ "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin"
	_ "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/webhook"
)

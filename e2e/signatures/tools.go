//go:build tools

// Package signatures pins what pushes and verifies a release, as its users do.
package signatures

import (
	_ "github.com/sigstore/cosign/v3/cmd/cosign"
	_ "oras.land/oras/cmd/oras"
)

// Command verifier verifies with cosign's own library, behind the options of cosign that
// docs/installing.md uses. It builds in a fifth of the time of the whole command.
package main

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

var predicateTypes = map[string]string{
	"":                "https://sigstore.dev/cosign/sign/v1",
	"slsaprovenance1": "https://slsa.dev/provenance/v1",
	"cyclonedx":       "https://cyclonedx.org/bom",
}

func main() {
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	key := flags.String("key", "", "the public key")
	ignore := flags.Bool("insecure-ignore-tlog", false, "expect no entry in a transparency log")
	kind := flags.String("type", "", "the kind of statement")
	bundlePath := flags.String("bundle", "", "the bundle of a file")
	_ = flags.Parse(os.Args[2:])
	if err := run(os.Args[1], flags.Arg(0), *key, *kind, *bundlePath, *ignore); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(command, what, key, kind, bundlePath string, ignore bool) error {
	verifier, err := loadKey(key)
	if err != nil {
		return err
	}
	options := &cosign.CheckOpts{
		SigVerifier:     verifier,
		IgnoreTlog:      ignore,
		Offline:         true,
		NewBundleFormat: true,
		ClaimVerifier:   cosign.IntotoSubjectClaimVerifier,
	}
	switch command {
	case "verify", "verify-attestation":
		reference, err := name.ParseReference(what)
		if err != nil {
			return err
		}
		found, verified, err := cosign.VerifyImageAttestations(context.Background(), reference, options)
		if err != nil {
			return err
		}
		if !verified {
			return errors.New("no bundle is verified")
		}
		return expect(found, predicateTypes[kind])
	case "verify-blob-attestation":
		file, err := os.Open(what)
		if err != nil {
			return err
		}
		defer file.Close()
		loaded, err := bundle.LoadJSONFromPath(bundlePath)
		if err != nil {
			return err
		}
		result, err := cosign.VerifyNewBundle(context.Background(), options, verify.WithArtifact(file), loaded)
		if err != nil {
			return err
		}
		if result.Statement.PredicateType != predicateTypes[kind] {
			return fmt.Errorf("the statement is %s", result.Statement.PredicateType)
		}
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}

func loadKey(path string) (signature.Verifier, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(pem)
	if err != nil {
		return nil, err
	}
	return signature.LoadVerifier(public, crypto.SHA256)
}

// expect returns an error unless one of the verified attestations is of a type.
func expect(found []oci.Signature, predicateType string) error {
	for _, attestation := range found {
		payload, err := attestation.Payload()
		if err != nil {
			return err
		}
		var envelope struct{ Payload string }
		if err := json.Unmarshal(payload, &envelope); err != nil {
			return err
		}
		decoded, err := base64.StdEncoding.DecodeString(envelope.Payload)
		if err != nil {
			return err
		}
		var statement struct{ PredicateType string }
		if err := json.Unmarshal(decoded, &statement); err != nil {
			return err
		}
		if statement.PredicateType == predicateType {
			return nil
		}
	}
	return fmt.Errorf("no verified statement is of type %s", predicateType)
}

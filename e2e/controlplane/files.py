"""The files a control plane is started with: keys, tokens, kubeconfigs, scheduler configuration."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

# Users of the static token file: name, and the groups it is in.
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}


def signing_key(folder: Path) -> tuple[Path, Path]:
    """Write the key pair that signs ServiceAccount tokens; private and public file."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "sa.key", folder / "sa.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    private.chmod(0o600)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def token_file(folder: Path, more: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """Write the static token file, for `more` users too; the file, and each user's token."""
    users = {**USERS, **more}
    tokens = {user: secrets.token_hex(16) for user in users}
    path = folder / "tokens.csv"
    rows = (
        f'{tokens[user]},{user},{number},"{groups}"'
        for number, (user, groups) in enumerate(users.items())
    )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    path.chmod(0o600)
    return path, tokens


def kubeconfig(path: Path, server: str, authority: Path, token: str) -> Path:
    """Write a kubeconfig for one user; YAML is a superset of the JSON written here."""
    name = "rig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority": str(authority),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    path.chmod(0o600)
    return path


def scheduler_configuration(path: Path, access: Path, extra: Mapping[str, Any]) -> Path:
    """Write a KubeSchedulerConfiguration; `extra` may add profiles and extenders."""
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        # Or the client's default limits would be what is measured.
        "clientConnection": {"kubeconfig": str(access), "qps": 5000, "burst": 5000},
        **extra,
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def audit_policy(folder: Path, group: str) -> Path:
    """Write an audit policy that records the requests of one group, without their bodies."""
    path = folder / "audit-policy.yaml"
    content = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "userGroups": [group]}, {"level": "None"}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path

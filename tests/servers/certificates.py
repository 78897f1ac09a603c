"""Certificates for servers on 127.0.0.1, made on the spot by the openssl command."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SUBJECT = ("-subj", "/CN=rq-dlq", "-addext", "subjectAltName=IP:127.0.0.1")


@dataclass(frozen=True)
class Certificate:
    """One that signs itself: whoever trusts it trusts the server that has its key."""

    file: Path
    key: Path

    @classmethod
    def made(cls, directory: Path) -> Certificate:
        """A new one, in this directory."""
        new = cls(directory / "certificate.pem", directory / "key.pem")
        kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        command = ["openssl", "req", *kind, *SUBJECT, "-keyout", str(new.key), "-out", str(new.file)]
        subprocess.run(command, check=True, capture_output=True)
        return new

    def settings(self, port: int) -> Mapping[str, str]:
        """For a server that is reached at this port by TLS, and not without."""
        yes = dict.fromkeys(("tls-replication", "tls-cluster"), "yes")
        ports = {"port": "0", "tls-port": str(port), "tls-auth-clients": "optional"}
        files = {"tls-cert-file": self.file, "tls-key-file": self.key, "tls-ca-cert-file": self.file}
        return {**yes, **ports, **{name: str(file) for name, file in files.items()}}

    def options(self, port: int) -> tuple[str, ...]:
        """The settings as on a command line."""
        return tuple(part for name, value in self.settings(port).items() for part in (f"--{name}", value))

    @property
    def trusted(self) -> str:
        """The parameter of a URL by which a client trusts it."""
        return f"ssl_ca_certs={self.file}"

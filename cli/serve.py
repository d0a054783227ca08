"""`drawbridge serve`: runs the processes as the manifests start them."""

import argparse
import asyncio
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

from cli.terminal.durations import parse_duration
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.process.addresses import Address, parse_address

if TYPE_CHECKING:
    from allocator.process import AllocatorOptions
    from certs.serving import CertificateOptions
    from controller.process import ControllerOptions
    from drawbridge.process.run import ProcessOptions
    from webhook.server.serving import ReviewOptions

RESTORED = 4  # as in drawbridge.process.run, whose import takes longer than `--help`
EXIT_CODES = {
    DONE: "stopped by SIGTERM or SIGINT",
    BAD: "bad input",
    RESTORED: "the API server was restored from a backup, and a new process has to start",
}
# The processes with a serving certificate.
CERTIFIED = ("webhook", "judge", "allocator")
_MANAGED = "managed"
# The plugin of the kube-scheduler gives an attempt to bind up after 120 s.
_MAX_BIND_WAIT = 110.0
# Upstream's default of `bindingTimeout`.
_BINDING_TIMEOUT = 600.0
# kube-scheduler's limits: 15 minutes at Permit, and 600 s while volumes are bound.
_HOLD_TIMEOUT, _HELD_DEVICES = 1500.0, 64


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the processes."""
    commands = parser.add_subparsers(
        dest="what", metavar="webhook|judge|controller|allocator", required=True
    )
    text = "answer admission reviews of pods and workloads"
    webhook = commands.add_parser("webhook", help=text, description=text, allow_abbrev=False)
    _add_reviews(webhook, "how long after a change the guard also respects the older inputs")
    webhook.add_argument(
        "--metric-namespaces",
        metavar="NUMBER",
        type=_parse_count,
        default=100,
        help="how many namespaces drawbridge_decisions_total names at a time; one that comes counts"
        " as other, unless another one had no pods with devices for an hour (default: 100)",
    )
    text = "reconcile facts, templates, quotas and match conditions; one replica is the leader"
    controller = commands.add_parser("controller", help=text, description=text, allow_abbrev=False)
    controller.add_argument(
        "--identity", metavar="NAME", help="holder identity in the Lease (default: the host name)"
    )
    controller.add_argument(
        "--metric-devices",
        metavar="NUMBER",
        type=_parse_count,
        default=1_000,
        help="how many held devices have a series in the metrics, with the names of claim and pod"
        " (default: 1000)",
    )
    _add_authority(controller)
    for subparser in (webhook, _add_judge(commands), controller, _add_allocator(commands)):
        _add_shared(subparser)


def _add_allocator(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Declare the options of the allocator."""
    text = "allocate devices for the kube-scheduler beside it, in bridge placement"
    allocator = commands.add_parser("allocator", help=text, description=text, allow_abbrev=False)
    allocator.add_argument(
        "--socket",
        metavar="FILE",
        default="/run/drawbridge/allocator.sock",
        help="the unix socket for the plugin of the kube-scheduler"
        " (default: /run/drawbridge/allocator.sock)",
    )
    allocator.add_argument(
        "--host",
        metavar="NAME",
        default="",
        help="the host name in the holder identity of the kube-scheduler (default: this host's)",
    )
    _add_api(allocator)
    _add_binding_times(allocator)
    return allocator


def _add_api(allocator: argparse.ArgumentParser) -> None:
    """Declare the options of the HTTP API."""
    allocator.add_argument(
        "--api",
        metavar="HOST:PORT",
        type=_parse_address,
        help="where to serve the API: with TLS, or without on a loopback address, where all"
        " processes of this host can use it (default: nowhere)",
    )
    allocator.add_argument(
        "--api-audience",
        metavar="NAME",
        default="",
        help="the audience of the tokens that clients of the API send (default: the API server's)",
    )
    text = "also accept clients with a certificate of one of these CAs instead of a token"
    _add_certificate(allocator, text)


def _add_binding_times(allocator: argparse.ArgumentParser) -> None:
    """Declare how long a pod waits for its devices and volumes before it is bound."""
    allocator.add_argument(
        "--bind-wait",
        metavar="SECONDS",
        type=partial(_parse_seconds, maximum=_MAX_BIND_WAIT),
        default=_MAX_BIND_WAIT,
        help="how long one attempt to bind a pod waits for the binding conditions of its devices,"
        f" at most {_MAX_BIND_WAIT:g} (default: {_MAX_BIND_WAIT:g})",
    )
    allocator.add_argument(
        "--binding-timeout",
        metavar="SECONDS",
        type=_parse_seconds,
        default=_BINDING_TIMEOUT,
        help="how long after the allocation the binding conditions must be true; then the devices"
        f" are released (default: {_BINDING_TIMEOUT:g})",
    )
    allocator.add_argument(
        "--hold-timeout",
        metavar="SECONDS",
        type=_parse_seconds,
        default=_HOLD_TIMEOUT,
        help="how long devices stay reserved for a pod whose volumes are being bound, or that waits"
        f" at Permit (default: {_HOLD_TIMEOUT:g})",
    )
    allocator.add_argument(
        "--held-devices",
        metavar="NUMBER",
        type=_parse_count,
        default=_HELD_DEVICES,
        help="how many devices of one namespace can be reserved for longer than 30 s for such pods"
        f" (default: {_HELD_DEVICES})",
    )


def _add_judge(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Declare the options of the judge."""
    text = "answer admission reviews of claims, templates, classes, and what refers to claims"
    judge = commands.add_parser("judge", help=text, description=text, allow_abbrev=False)
    _add_reviews(
        judge,
        "how long after the start, or after devices are withdrawn, findings about devices"
        " are only warnings",
    )
    return judge


def _add_reviews(parser: argparse.ArgumentParser, settles: str) -> None:
    """Declare the options of a process that answers admission reviews."""
    _add_certificate(parser)
    _add_leaf_life(parser)
    _add_address(parser, "--listen", ":9443", "admission requests")
    for name, seconds, text in (
        ("--drain", 10, "how long to continue serving after SIGTERM"),
        ("--settle", 300, settles),
    ):
        parser.add_argument(
            name,
            metavar="SECONDS",
            type=_parse_seconds,
            default=float(seconds),
            help=f"{text} (default: {seconds})",
        )


def _add_certificate(
    parser: argparse.ArgumentParser,
    client_ca: str = "accept only clients with a certificate of one of these CAs"
    " (default: any client)",
) -> None:
    """Declare the options of a process with a serving certificate."""
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        help="serving certificate (default: signed with the CA of the controller)",
    )
    parser.add_argument("--tls-key", metavar="FILE", help="its private key")
    parser.add_argument("--client-ca", metavar="FILE", default="", help=client_ca)


def _add_leaf_life(parser: argparse.ArgumentParser) -> None:
    """Declare the option of a process that signs its serving certificate."""
    parser.add_argument(
        "--leaf-life",
        metavar="DURATION",
        type=parse_duration,
        default=7 * 86_400.0,
        help="validity of a certificate that this process signs, for example 12h (default: 7d)",
    )


def _add_authority(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the process that makes the CA."""
    parser.add_argument(
        "--certificates",
        choices=[_MANAGED, "external"],
        default=_MANAGED,
        help="whether the leading controller makes the CA and sets caBundle (default: managed)",
    )
    parser.add_argument(
        "--ca-life",
        metavar="DURATION",
        type=parse_duration,
        default=365 * 86_400.0,
        help="validity of a new CA, which is replaced after two thirds of it (default: 365d)",
    )
    parser.add_argument(
        "--ca-delay",
        metavar="SECONDS",
        type=_parse_seconds,
        default=120.0,
        help="how long a new CA is trusted before certificates use it (default: 120)",
    )


def _add_shared(parser: argparse.ArgumentParser) -> None:
    _add_address(parser, "--health", ":8081", "/healthz and /readyz")
    _add_address(parser, "--metrics", ":8080", "/metrics")
    parser.add_argument(
        "--config-map",
        action="store_true",
        help="use the configuration in ConfigMap drawbridge-config (default: the default values)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig file (default: the service account of the pod)",
    )
    parser.add_argument("--context", metavar="NAME", help="the context in the kubeconfig")
    parser.add_argument("--namespace", metavar="NS", help="the namespace of the installation")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="lowest level to log; debug logs every request (default: info)",
    )


def _add_address(parser: argparse.ArgumentParser, name: str, default: str, purpose: str) -> None:
    parser.add_argument(
        name,
        metavar="HOST:PORT",
        type=_parse_address,
        default=parse_address(default),
        help=f"where to listen for {purpose} (default: {default})",
    )


def _parse_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse_seconds(text: str, maximum: float = 3600) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= maximum:
        raise argparse.ArgumentTypeError(f"{text}: must be between 0 and {maximum:g} seconds")
    return seconds


def _parse_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0")
    return int(text)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Run the process until SIGTERM or SIGINT; 0 after a graceful shutdown."""
    if options.what in CERTIFIED and bool(options.tls_cert) != bool(options.tls_key):
        streams.err.write("drawbridge serve: use --tls-cert and --tls-key together\n")
        return BAD
    # The imports take long. The first process of a container ignores a signal without a handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(DONE))
    # Import here, because `drawbridge serve --help` does not need it.
    if options.what == "webhook":
        from webhook.server.process import run as webhook  # noqa: PLC0415

        return asyncio.run(webhook(review_options(options)))
    if options.what == "judge":
        from webhook.server.judge_process import run as judge  # noqa: PLC0415

        return asyncio.run(judge(review_options(options)))
    if options.what == "allocator":
        from allocator.process import run as allocator  # noqa: PLC0415

        return asyncio.run(allocator(allocator_options(options)))
    from controller.process import run as controller  # noqa: PLC0415

    return asyncio.run(controller(controller_options(options)))


def review_options(options: argparse.Namespace) -> "ReviewOptions":
    """Return the options of the webhook or of the judge."""
    from webhook.server.serving import ReviewOptions  # noqa: PLC0415

    return ReviewOptions(
        process=_process_options(options),
        certificate=_certificate_options(options),
        listen=options.listen,
        drain=options.drain,
        settle=options.settle,
        metric_namespaces=getattr(options, "metric_namespaces", 0),
    )


def controller_options(options: argparse.Namespace) -> "ControllerOptions":
    """Return the options of the controller."""
    from certs.rotation import RotationPolicy  # noqa: PLC0415
    from controller.process import ControllerOptions  # noqa: PLC0415

    managed = options.certificates == _MANAGED
    rotation = RotationPolicy(life=options.ca_life, delay=options.ca_delay) if managed else None
    return ControllerOptions(
        process=_process_options(options),
        identity=options.identity or "",
        rotation=rotation,
        metric_devices=options.metric_devices,
    )


def allocator_options(options: argparse.Namespace) -> "AllocatorOptions":
    """Return the options of the allocator."""
    from allocator.api.opening import ApiOptions  # noqa: PLC0415
    from allocator.process import AllocatorOptions  # noqa: PLC0415
    from allocator.state.reserved_pods import HoldLimits  # noqa: PLC0415
    from allocator.writes.binding import BindingTimes  # noqa: PLC0415

    api = options.api and ApiOptions(
        listen=options.api,
        audience=options.api_audience,
        certificate=_certificate_options(options),
    )
    return AllocatorOptions(
        process=_process_options(options),
        socket=options.socket,
        host=options.host,
        api=api,
        binding=BindingTimes(options.bind_wait, options.binding_timeout),
        holding=HoldLimits(options.hold_timeout, options.held_devices),
    )


def _process_options(options: argparse.Namespace) -> "ProcessOptions":
    from drawbridge.process.run import ProcessOptions  # noqa: PLC0415

    return ProcessOptions(
        health=options.health,
        metrics=options.metrics,
        config_map=options.config_map,
        kubeconfig=options.kubeconfig,
        context=options.context,
        namespace=options.namespace,
        log_level=options.log_level,
    )


def _certificate_options(options: argparse.Namespace) -> "CertificateOptions":
    from certs.serving import CertificateFiles, CertificateOptions  # noqa: PLC0415

    files = CertificateFiles(options.tls_cert, options.tls_key) if options.tls_cert else None
    life = getattr(options, "leaf_life", None)
    return CertificateOptions(files=files, leaf_life=life, client_ca=options.client_ca)

"""The next step of the certificate authority: a table, and properties of simulated rotations."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import NONE, Authorities, Authority, Certificate, create_authority
from certs.rotation import (
    MAX_TRUSTED,
    RotationPolicy,
    Situation,
    Step,
    add_upcoming,
    combine,
    decide,
)
from certs.secret import SecretReading, SecretState
from tests.certs.samples import DAY, LIFE, START, authorities, authority
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn

CASES = load_cases(Path(__file__).parent / "cases" / "rotation.yaml")
POLICY = RotationPolicy(life=LIFE, delay=2 * DAY)
TOLERANCE = 1e-3  # days; certificates have whole seconds


def read_state(case: YamlValue) -> SecretState:
    return SecretState[case.get("secret", "valid").upper()]


@every_row("case", CASES, ids=lambda case: case["case"])
def test_the_next_step_is_that_of_the_table(case: YamlValue) -> None:
    now = START + case["day"] * DAY
    injected = case.get("injected")
    situation = Situation(
        reading=SecretReading(read_state(case), authorities(case.get("holds"))),
        remembered=authorities(case.get("remembered")),
        live=authorities(["-", "-", *case.get("live", ())]).trusted,
        injected_for=None if injected is None else injected * DAY,
    )
    decision = decide(situation, POLICY, now)
    assert decision.step.value == case["step"]
    after, expected = decision.authorities, list(case["after"])
    if "new" in expected:
        assert decision.step is Step.CREATE
        assert after.upcoming is None
        expected[1] = "-"
    assert after == authorities(expected)
    if "wait" in case:
        assert decision.wait / DAY == pytest.approx(case["wait"], abs=TOLERANCE)


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    both = add_upcoming(authorities(["a"]), authority("b"))
    assert both == authorities(["a", "b"])


def test_the_number_of_trusted_certificates_is_limited_and_the_signers_stay() -> None:
    now, lost = START, NONE
    for i in range(MAX_TRUSTED + 5):
        created = create_authority(now + i, LIFE)
        lost = add_upcoming(Authorities(None, None, lost.trusted), created)
    assert len(lost.trusted) == MAX_TRUSTED
    assert lost.upcoming is not None
    assert lost.upcoming.certificate in lost.trusted
    oldest = combine(SecretReading(SecretState.VALID, lost), NONE, now)
    assert oldest == lost


# --- simulated rotations --------------------------------------------------------------------------


class Cluster:
    """A leader, API servers that follow with a lag, and replicas that follow the Secret."""

    def __init__(self, policy: RotationPolicy, servers: int, replicas: int) -> None:
        self.policy = policy
        self.now = START
        self.secret = SecretReading(SecretState.ABSENT)
        self.remembered = NONE
        self.bundle: tuple[Certificate, ...] = ()
        self.injected_at: float | None = None
        self.pending: list[tuple[float, int, tuple[Certificate, ...]]] = []
        self.known: list[tuple[Certificate, ...]] = [()] * servers
        self.serving: list[Authority | None] = [None] * replicas
        self.replicas = [NONE] * replicas

    def lead(self, lags: list[float]) -> float:
        """Let the leader take one step; its writes reach the API servers with a lag.

        Return the seconds until the leader looks again.
        """
        upcoming = self.secret.stored.upcoming
        is_trusted = upcoming is not None and upcoming.certificate in self.bundle
        if not is_trusted:
            self.injected_at = None
        elif self.injected_at is None:
            self.injected_at = self.now
        waited = None if self.injected_at is None else self.now - self.injected_at
        situation = Situation(self.secret, self.remembered, self.bundle, waited)
        decision = decide(situation, self.policy, self.now)
        wanted = decision.authorities
        if decision.step is Step.CREATE:
            wanted = add_upcoming(wanted, create_authority(self.now, self.policy.life))
        self.remembered = wanted
        self.secret = SecretReading(SecretState.VALID, wanted)
        if wanted.trusted != self.bundle:
            self.bundle = wanted.trusted
            for server, lag in enumerate(lags):
                # A watch shows changes in their order.
                earlier = (at for at, other, _ in self.pending if other == server)
                at = max(self.now + lag, *earlier, self.now)
                self.pending.append((at, server, self.bundle))
        return decision.wait if decision.step is Step.KEEP else 0.0

    def run(self, seconds: float, lags: list[float]) -> None:
        """Let time pass. The leader and all replicas look whenever they planned to."""
        end = self.now + seconds
        while self.now < end:
            wait = self.lead(lags)
            self.follow()
            self.follow_secret()
            self.now = min(self.now + max(wait, 1.0), end)
            self.follow()
            assert not self.find_untrusted()

    def follow(self) -> None:
        """Let API servers and replicas see what has reached them."""
        for at, server, bundle in sorted(self.pending, key=lambda each: each[0]):
            if at <= self.now:
                self.known[server] = bundle
        self.pending = [each for each in self.pending if each[0] > self.now]

    def sign(self, replica: int) -> None:
        """Let one replica look at the Secret and sign with the CA that it knows."""
        self.replicas[replica] = combine(self.secret, self.replicas[replica], self.now)
        signer = self.replicas[replica].current
        if signer is not None and signer.certificate.is_valid(self.now):
            self.serving[replica] = signer

    def follow_secret(self) -> None:
        """Let all replicas look at the Secret, and check whom the API servers trust."""
        for number in range(len(self.serving)):
            self.sign(number)
        assert not self.find_untrusted()

    def find_untrusted(self) -> list[int]:
        """Return the replicas whose certificate some API server refuses."""
        return [
            i
            for i, signer in enumerate(self.serving)
            if signer is not None and any(signer.certificate not in each for each in self.known)
        ]


LAG = 10.0
SIMULATED = RotationPolicy(life=3_000.0, delay=1.2 * LAG)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([1.0, 3.0, 8.0, 60.0, 400.0]),
        st.lists(st.sampled_from([0.0, LAG / 2, LAG]), min_size=2, max_size=2),
        st.sampled_from(
            ["", "", "", "deleted", "damaged", "lost", "new leader", "replaced", "unknown"]
        ),
    ),
    min_size=10,
    max_size=40,
)


@settings(max_examples=drawn(13, thorough=40))
@given(STEPS)
def test_no_replica_serves_a_certificate_that_an_api_server_does_not_trust(
    steps: list[tuple[float, list[float], str]],
) -> None:
    cluster = Cluster(SIMULATED, servers=2, replicas=3)
    # An installation: nobody calls the webhook before every API server trusts the first CA.
    for _ in range(2):
        cluster.lead([0.0, 0.0])
        cluster.follow()
    cluster.follow_secret()
    for seconds, lags, event in steps:
        match event:
            case "deleted":
                cluster.secret = SecretReading(SecretState.ABSENT)
            case "damaged":
                damaged = Authorities(None, None, cluster.secret.stored.trusted)
                cluster.secret = SecretReading(SecretState.DAMAGED, damaged)
            case "lost":
                # The leader restarts while the Secret is gone, so nobody can restore the key.
                cluster.secret = SecretReading(SecretState.ABSENT)
                cluster.remembered, cluster.injected_at = NONE, None
            case "replaced" | "unknown":
                created = create_authority(cluster.now, SIMULATED.life)
                replacing = add_upcoming(NONE, created)
                stored = Authorities(created, None, replacing.trusted)
                cluster.secret = SecretReading(SecretState.VALID, stored)
                # Without a leader, the replicas see it first.
                cluster.follow_secret()
                if event == "unknown":
                    cluster.remembered, cluster.injected_at = NONE, None
            case "new leader":
                # It has watched the Secret, and starts to measure the delay again.
                cluster.remembered = combine(cluster.secret, cluster.remembered, cluster.now)
                cluster.injected_at = None
        cluster.run(seconds, lags)


def test_a_simulated_rotation_replaces_the_authority_again_and_again() -> None:
    cluster = Cluster(SIMULATED, servers=2, replicas=1)
    seen = set()
    for _ in range(400):
        cluster.lead([LAG, LAG / 2])
        cluster.follow()
        cluster.sign(0)
        current = cluster.remembered.current
        if current is not None:
            seen.add(current.certificate.fingerprint)
            assert len(cluster.remembered.trusted) <= 3
        cluster.now += 30
    assert len(seen) == 6  # 12,000 seconds, a rotation after each 2,000

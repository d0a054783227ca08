"""Why a pod with device requests was not translated, and the remedy."""

from drawbridge.report.not_translated import PodMode
from tests.report.test_explain import LEGACY, explained, pod


def test_an_untranslated_pod_has_its_requests_and_the_reason() -> None:
    mode = PodMode("off", "rollout", "the rollout leaves it out", "raise the share")
    explanation = explained(pod(LEGACY), find_mode=lambda _: mode)
    assert (explanation.mode, explanation.rule) == ("off", "rollout")
    assert not explanation.translated
    assert [each.resource for each in explanation.asked] == ["nvidia.com/gpu"]
    (told, *_) = explanation.findings
    assert told.code == "NotTranslated"
    assert told.message.endswith("; the rollout leaves it out")
    assert "Only then raise the share, and create the pod again." in told.remedy
    (told, *_) = explained(pod(LEGACY, node="n1"), find_mode=lambda _: mode).findings
    assert told.remedy == "To translate it, raise the share, and create the pod again."


def test_of_a_pod_whose_namespace_may_not_be_read_no_mode_is_told() -> None:
    explanation = explained(pod(LEGACY))
    assert (explanation.mode, explanation.rule) == (None, None)
    (told, *_) = explanation.findings
    assert told.message == "requests nvidia.com/gpu, nvidia.com/use-gputype"
    assert "Only then label the namespace with drawbridge.dev/translate=enforce" in told.remedy


def test_the_remedy_for_an_untranslated_pod_shows_how_to_find_the_reason() -> None:
    mode = PodMode("enforce", "namespaceLabel")
    (first, *_) = explained(pod(LEGACY), find_mode=lambda _: mode).findings
    assert "was not translated when it was created" in first.message
    assert "drawbridge translate" in first.remedy

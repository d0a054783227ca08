"""The templates that waiting pods lack: admission could not make them, or somebody deleted them.

A pod is taken back to what was asked and translated again; only what then has the very name that
the pod refers to is written. Anybody can write annotations, so nothing else of one is believed.
Knows nothing of why a template is missing.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from controller.protocols import About, Kept, Now, Store, Told, Watched, refused
from controller.reconcile import apart
from controller.watched_objects import Named, Pod
from documents.values import Value
from dra.finding import Finding
from dra.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from facts.model import Facts
from registration.admission_codes import TEMPLATE_TAKEN
from registration.controller_codes import TEMPLATE_UNKNOWN
from registration.owned_templates import may_be_ours, stands_for_content
from registration.template_objects import demanding, lost, placed, refusal
from translate.changes.patch import restored
from translate.changes.template import Template
from translate.pods import Given, translate

DUTY: Final = "templates"
_OVER: Final = ("Succeeded", "Failed")
# A quota may have room again, a policy may be changed; nobody tells.
_AGAIN: Final = timedelta(seconds=5)

Key: TypeAlias = tuple[str, str]  # namespace and name


def again(
    pod: Value, namespace: str, missing: frozenset[str], worlds: Iterable[Given]
) -> tuple[Template, ...]:
    """Make the missing templates from what the pod asked; none where not all can be made."""
    asked = restored(pod)
    if asked is None:
        return ()
    for by in worlds:
        made = {each.name: each for each in translate(asked, by, namespace).templates}
        if missing <= made.keys():
            return tuple(made[name] for name in sorted(missing))
    return ()


class TemplatesDuty:
    """Looks at pods that have no node yet whenever they, or the templates they need, change."""

    name = DUTY

    def __init__(  # noqa: PLR0913  # what it compares, and what it makes
        self,
        pods: Watched[Pod],
        templates: Watched[Named],
        store: Store,
        *,
        given: Callable[[], Given | None],
        version: Callable[[str], Facts | None],
        told: Told,
        now: Now,
    ) -> None:
        self._pods = pods
        self._templates = templates
        self._store = store
        self._given = given
        self._version = version
        self._told = told
        self._now = now
        self._due: set[Key] = set()
        self._stuck: dict[Key, str] = {}  # with the uid of the pod that was told
        self._refused: dict[Key, tuple[str, datetime]] = {}  # the same, and when to try again
        self._checked: dict[Key, tuple[str, bool]] = {}  # templates, by version: are they good
        self._warned: dict[Key, str] = {}  # pods, with the version of the bad template
        self._first = True

    def pod_changed(self, before: Kept[Pod] | None, after: Kept[Pod] | None) -> None:
        """Hear of a pod."""
        if after is not None and _refers(after.value):
            self._due.add((after.namespace, after.name))
        elif after is None and before is not None:
            # Also while somebody else leads: who never works must not remember everybody.
            key = (before.namespace, before.name)
            self._due.discard(key)
            self._stuck.pop(key, None)
            self._refused.pop(key, None)
            self._warned.pop(key, None)

    def template_changed(self, before: Kept[Named] | None, after: Kept[Named] | None) -> None:
        """Hear of a template: whoever refers to it is looked at again."""
        which = after or before
        if which is None or not may_be_ours(which.name):
            return
        if after is None:
            self._checked.pop((which.namespace, which.name), None)
        for each in self._pods.all(which.namespace):
            if which.name in each.value.templates:
                self._due.add((each.namespace, each.name))

    def facts_changed(self) -> None:
        """Hear of new facts, with which a pod that could not be helped perhaps can."""
        self._due.update(self._stuck)

    async def step(self) -> None:
        """Help everybody who is due; whoever could not be helped for the world's sake stays so."""
        if self._first:
            self._due.update((each.namespace, each.name) for each in self._pods.all())
            self._first = False
        now = self._now()
        self._due.update(key for key, (_, again) in self._refused.items() if again <= now)
        try:
            await apart(sorted(self._due), self._look)
        finally:
            waiting = len(self._stuck) + len(self._refused)
            self._told.level(DUTY, "pods that cannot be helped", waiting)

    async def _look(self, key: Key) -> None:
        """Help one pod if it needs help; with an exception it stays due."""
        pod = self._pods.get(key[1], key[0])
        if pod is not None and _waits(pod.value) and not self._must_wait(key, pod):
            try:
                await self._help(key, pod)
            except Exception as error:
                if not refused(error, 400, 403, 404, 422):
                    raise
                self._put_off(key, pod, error)
            else:
                self._refused.pop(key, None)
        self._due.discard(key)

    def _must_wait(self, key: Key, pod: Kept[Pod]) -> bool:
        """Whether the API server refused what the pod needs just now."""
        uid, again = self._refused.get(key, ("", None))
        return again is not None and uid == pod.uid and self._now() < again

    def _put_off(self, key: Key, pod: Kept[Pod], error: Exception) -> None:
        """Tell, once, what the API server has against a pod's template, and try again later."""
        names = " and ".join(name for name in pod.value.templates if may_be_ours(name))
        if self._refused.get(key, ("",))[0] != pod.uid:
            self._tell(refusal(names, f"{error}"), pod, "refused")
        self._refused[key] = (pod.uid, self._now() + _AGAIN)

    async def _help(self, key: Key, pod: Kept[Pod]) -> None:
        names = [name for name in pod.value.templates if may_be_ours(name)]
        stored = {name: self._templates.get(name, pod.namespace) for name in names}
        for there in stored.values():
            if there is not None:
                self._check(there, key, pod)
        missing = frozenset(name for name, template in stored.items() if template is None)
        if not missing:
            self._stuck.pop(key, None)
            return
        raw = msgspec.json.decode(pod.raw)
        made = again(raw, pod.namespace, missing, self._worlds(pod.value))
        dropped = [each for one in made if (each := await self._make(one, pod.namespace))]
        if made and not dropped:
            self._stuck.pop(key, None)
        elif self._stuck.get(key) != pod.uid:
            # Without any facts yet there may be more to try in a moment.
            self._stuck[key] = pod.uid if self._given() is not None else ""
            for each in dropped:
                self._tell(each, pod, "dropped")
            if not made and self._stuck[key]:
                self._tell(_unknown(pod.value, missing), pod, "unknown")

    def _worlds(self, pod: Pod) -> Iterator[Given]:
        """The facts that the pod notes, those of now, and none, as before any were published."""
        now = self._given()
        noted = (pod.metadata.annotations or {}).get(FACTS_ANNOTATION, "")
        if now is None:
            return
        facts = self._version(noted) if noted else None
        if facts is not None and noted != now.digest:
            yield Given(now.configuration, facts, noted)
        yield now
        if not noted:
            yield Given(now.configuration)

    async def _make(self, template: Template, namespace: str) -> Finding | None:
        """Make a template; not one of which the API server would keep less, and so give more."""
        whole = placed(template, namespace, self._now())
        try:
            if demanding(template):
                tried = await self._store.create(whole, namespace, dry_run=True)
                if (dropped := lost(tried, template)) is not None:
                    return dropped
            await self._store.create(whole, namespace)
        except Exception as error:
            # Somebody was faster; the watch tells whether it says the same.
            if not refused(error, 409):
                raise
            return None
        self._told.count(DUTY, "made")
        return None

    def _check(self, template: Kept[Named], key: Key, pod: Kept[Pod]) -> None:
        """Tell of a template whose content is not what its name stands for."""
        at = (template.namespace, template.name)
        version, good = self._checked.get(at, ("", True))
        if version != template.version:
            good = stands_for_content(msgspec.json.decode(template.raw))
            self._checked[at] = (template.version, good)
        if good or self._warned.get(key) == template.version:
            return
        self._warned[key] = template.version
        message = f"{template.namespace}/{template.name} says something else than its name"
        self._tell(TEMPLATE_TAKEN.at("spec.resourceClaims", message), pod, "taken")

    def _tell(self, finding: Finding, pod: Kept[Pod], what: str) -> None:
        about = About("Pod", pod.name, pod.namespace, pod.uid)
        self._told.say(finding, about, "EnsureTemplate")
        self._told.count(DUTY, what)


def _refers(pod: Pod) -> bool:
    return any(may_be_ours(name) for name in pod.templates)


def _waits(pod: Pod) -> bool:
    over = pod.metadata.deletion_timestamp is not None or pod.status.phase in _OVER
    return not over and _refers(pod)


def _unknown(pod: Pod, missing: frozenset[str]) -> Finding:
    annotations = pod.metadata.annotations or {}
    names = ", ".join(sorted(missing))
    noted = annotations.get(FACTS_ANNOTATION, "")
    why = f"was made with facts {noted}" if noted else "was made without facts"
    if ORIGINAL_ANNOTATION not in annotations:
        why = f"is missing, and the pod has no annotation {ORIGINAL_ANNOTATION} any more"
    message = f"{names} {why}; what the pod asked does not give it with any facts that are known"
    about = f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
    return TEMPLATE_UNKNOWN.at("spec.resourceClaims", message, object=about)

"""Which classes a name had: their claims count for it until they are gone.

The quota of Drawbridge notes them. A name that a class maps needs no such quota, so what a class
has mapped is remembered here from the change on, until the quota notes it. A leader whose term
begins later does not know it.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from controller.quota_charges import names_of_classes
from drawbridge.agreement.mirrored_quota import Classes
from drawbridge.translate.context import TranslationContext


class FormerClasses:
    """Remembers which classes map a name no more, by the namespaces that have not noted them."""

    def __init__(self) -> None:
        self._unmapped: dict[str, set[tuple[str, str]]] = {}

    def note_change(
        self,
        before: TranslationContext | None,
        after: TranslationContext,
        namespaces: Iterable[str],
    ) -> None:
        """Remember what classes have mapped before a change, and map no more."""
        charged = names_of_classes(after)
        mapped = names_of_classes(before).items() if before else ()
        unmapped = [(each, name) for each, name in mapped if name and charged.get(each) != name]
        for namespace in namespaces if unmapped else ():
            self._unmapped.setdefault(namespace, set()).update(unmapped)

    def forget_all_but(self, namespaces: AbstractSet[str]) -> None:
        """Drop what is remembered for other namespaces."""
        self._unmapped = {name: each for name, each in self._unmapped.items() if name in namespaces}

    def find(
        self,
        namespace: str,
        noted: Classes,
        used: Mapping[str, int],
        context: TranslationContext | None,
    ) -> Classes:
        """Return the classes that have claims which are not charged to the name itself.

        `used` is the usage of claims as the quota shows it; a class whose claims were never counted
        can have some.
        """
        charged = names_of_classes(context) if context else {}
        unmapped = self._unmapped.pop(namespace, set())
        left = {(each, name) for each, name in unmapped if each not in noted.get(name, ())}
        if left:
            self._unmapped[namespace] = left
        classes = {name: set(listed) for name, listed in noted.items()}
        for each, name in left:
            classes.setdefault(name, set()).add(each)
        return {
            name: frozenset(
                each for each in listed if used.get(each) != 0 and charged.get(each) != name
            )
            for name, listed in classes.items()
        }

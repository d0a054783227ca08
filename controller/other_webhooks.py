"""Reports known webhooks of other projects that touch the pods we translate."""

from collections.abc import Callable, Iterable
from typing import Final

from controller.protocols import About, Object, Told
from dra.finding import Finding
from registration.other_webhooks import others

DUTY: Final = "others"


class OthersDuty:
    """Tells of the others when they change."""

    name = DUTY

    def __init__(self, read: Callable[[], Iterable[Object]], told: Told, about: About) -> None:
        self._read = read
        self._told = told
        self._about = about
        self._said: tuple[Finding, ...] = ()

    async def step(self) -> None:
        """Look at the configurations as they are now."""
        found = others(self._read(), self._about.name)
        self._told.level(DUTY, "webhooks", len(found))
        for finding in found:
            if finding not in self._said:
                self._told.say(finding, self._about, "CompareWebhooks")
        self._said = found

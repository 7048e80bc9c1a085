"""The user's decisions on rules: acknowledged, muted and thresholds from the screen, and changes of settings files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rltop.errors import ConfigError, ThemeError
from rltop.pages.alerts import rule_title, verdict_title
from rltop.pages.page import SetRule
from rltop.rows.rows import Target, TargetKind
from rltop.run.preferences import MUTE, RuleScope
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from rltop.app.app import RltopApp
    from rltop.app.options import UiOptions
    from rltop.run.options import IngestOptions


class Reread(Protocol):
    """Settings read again from changed files."""

    @property
    def ingest(self) -> IngestOptions: ...

    @property
    def ui(self) -> UiOptions: ...

    @property
    def waiting(self) -> Sequence[str]: ...


class RuleKeys:
    """Saves them for the run on the screen and shows what is in force.

    Attributes:
        reread: returns the settings if their files have changed, or a message why they cannot be read.
    """

    def __init__(self, app: RltopApp) -> None:
        self._app = app
        self.reread: Callable[[], Reread | str | None] = lambda: None
        self._waiting: Sequence[str] = ()

    def take_settings(self) -> None:
        app, found = self._app, self.reread()
        if found is None:
            return
        if isinstance(found, str):
            app.show_message(found)
            return
        new, now = found.ingest, app.session.builder.options
        options = now._replace(
            rules=new.rules, meanings=new.meanings, rows=new.rows, own_rules=new.own_rules, decoder=new.decoder,
            total_steps=new.total_steps, gpus=new.gpus,
        )  # fmt: skip
        try:
            is_other = app.use(found.ui)
        except (ConfigError, ThemeError) as error:
            app.show_message(f"{error}: what held before still does")
            return
        app.session.use(options)
        app.draw()
        waits = f"; {', '.join(found.waiting)} from the next start on" if found.waiting else ""
        is_news, self._waiting = found.waiting != self._waiting, found.waiting
        # Pinned rows are saved by this program itself and visible, so they need no message.
        if is_other or is_news or repr(options._replace(rows=now.rows)) != repr(now):
            app.show_message(f"the settings have changed, and were read again{waits}")

    def acknowledge(self, rule: str) -> None:
        """Acknowledge the alert of a rule until it gets worse, or undo that; show why if it cannot be saved."""
        app = self._app
        try:
            is_quiet = app.session.acknowledge(app.followed, rule)
        except OSError as error:
            app.show_message(f"cannot be kept: {error.strerror or error}")
            return
        title = verdict_title(Snapshot(app.followed), Target(TargetKind.VERDICT, rule))
        if is_quiet is None:
            app.show_message(f"no alert of {title} now")
        else:
            self._said(
                f"{title} is {'acknowledged: quiet until it gets worse' if is_quiet else 'no longer acknowledged'}"
            )

    def mute(self, rule: str) -> None:
        self.set(SetRule(rule, RuleScope.RUN, MUTE, rule not in self._app.followed.main.judging.muted))

    def unmute(self) -> None:
        muted = sorted(self._app.followed.main.judging.muted)
        if all(self._unmute(rule) for rule in muted):
            self._said(f"no longer muted for this run: {', '.join(map(rule_title, muted))}")

    def _unmute(self, rule: str) -> bool:
        """Remove a mute that was set for the run alone; override one from a wider scope."""
        return self._keep(SetRule(rule, RuleScope.RUN, MUTE, None)) and (
            rule not in self._app.followed.main.judging.muted or self._keep(SetRule(rule, RuleScope.RUN, MUTE, False))
        )

    def set(self, effect: SetRule) -> None:
        """Save a threshold or a mute, and show the run judged by it."""
        app, (rule, scope, name, value) = self._app, effect
        is_threshold = name != MUTE
        if is_threshold and not app.session.may_mean(app.followed):
            app.show_message("what comes on standard input cannot be judged anew: set it in the config file")
            return
        is_let_go = effect == SetRule(rule, RuleScope.RUN, MUTE, False)
        if not (self._unmute(rule) if is_let_go else self._keep(effect)):
            return
        if name == MUTE:
            is_muted = rule in app.followed.main.judging.muted
            still = "" if is_muted is value else f"; for this run it is {'still' if is_muted else 'not'} muted"
            self._said(f"{rule_title(rule)} is {'muted' if value else 'no longer muted'} for {scope.words}{still}")
        elif value is None:
            self._said(f"{rule_title(rule)} {name or 'as a whole'}: nothing is set for {scope.words} any more")
        else:
            self._said(f"{rule_title(rule)} {name} is {value:g} for {scope.words}; kept in rules.toml")

    def _keep(self, effect: SetRule) -> bool:
        app, (rule, scope, name, value) = self._app, effect
        return app.tries_to_keep(lambda: app.session.set_rule(app.followed, scope, rule, name, value))

    def _said(self, text: str) -> None:
        self._app.draw()
        self._app.show_message(text)

"""Writes rltop/cli/completions/, which `rltop completions` prints, by shtab: `python docs/generate_completions.py`."""

from __future__ import annotations

from pathlib import Path

import shtab
from command_line import command_line

FOLDER = Path(__file__).parents[1] / "rltop" / "cli" / "completions"

PREAMBLES = {
    # The first word is a command or a file; shtab completes one kind of thing at a place.
    "bash": """\
_rltop_files_or_commands() {
  compgen -f -- "$1"
  (( COMP_CWORD == 1 )) && compgen -W "COMMANDS" -- "$1"
}""",
    "zsh": """\
_shtab_rltop() {
  local curcontext="$curcontext" context state line options=_shtab_rltop_options
  typeset -A opt_args
  if (( CURRENT == 2 )); then
    _shtab_rltop_commands
  elif [[ " COMMANDS " == *" ${words[2]} "* ]]; then
    options="_shtab_rltop_${words[2]}_options"
    shift words
    (( CURRENT-- ))
  fi
  # `(*)` is how shtab writes "several files", of which zsh would complete the first alone.
  _arguments -s "${(@)${(@P)options}/#\\(\\*\\)(::|:)/*:}"
}
# Sourced; what follows is for a script that is evaluated, or found in fpath.
if [[ $zsh_eval_context[-1] == file ]]; then
  compdef _shtab_rltop rltop
  return
fi""",
}

FILES = frozenset({"FILE", "PATH", "RUN"})
"""Names of values in the help that are files."""


def pages() -> dict[Path, str]:
    """File → the script for its shell."""
    root, commands = command_line()
    for parser in (root, *commands.values()):
        for action in parser._actions:
            if action.metavar in FILES or action.dest in {"rollouts", "log"}:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif isinstance(action.metavar, str) and "|" in action.metavar:
                action.choices = action.metavar.split("|")
    first = root._get_positional_actions()[0]
    first.complete = shtab.FILE | {"bash": "_rltop_files_or_commands"}  # type: ignore[attr-defined]
    preambles = {shell: text.replace("COMMANDS", " ".join(commands)) for shell, text in PREAMBLES.items()}
    return {
        FOLDER / f"rltop.{shell}": shtab.complete(root, shell, preamble=preambles) + "\n"
        for shell in ("bash", "zsh", "fish")
    }


if __name__ == "__main__":
    for path, script in pages().items():
        path.write_text(script)

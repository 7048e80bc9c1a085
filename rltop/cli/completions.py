"""`rltop completions bash` (or zsh, fish) and the man page: the command line as data, spelled for others.

Both follow from the parsers, so that a flag has one place.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from rltop.structs import NamedTuple

SHELLS = ("bash", "zsh", "fish")


_PLAIN = str.maketrans("[]:`\\", "() ./")
"""Signs that a specification of zsh reads as its own."""


class Flag(NamedTuple):
    """One option.

    Attributes:
        names: as they are typed.
        help: one line.
        choices: what its value may be, where there are few.
        takes_value: a word follows it.
    """

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes_value: bool


Parsers = Mapping[str, argparse.ArgumentParser]
"""Command → its parser; "" is `rltop` itself."""


def flags_of(parser: argparse.ArgumentParser) -> list[Flag]:
    """The options of a command, in the order in which its help has them."""
    return [
        Flag(
            names=tuple(action.option_strings),
            help=(action.help or "").replace("%%", "%").replace("\n", " "),
            choices=_choices(action),
            takes_value=action.nargs != 0,
        )
        for action in parser._actions
        if action.option_strings and action.help is not argparse.SUPPRESS
    ]


def _choices(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    metavar = action.metavar
    return tuple(metavar.split("|")) if isinstance(metavar, str) and "|" in metavar else ()


def _words_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """What stands behind a command that takes no file but one of a few words."""
    return next((_choices(one) for one in parser._actions if not one.option_strings and one.choices), ())


def completions(shell: str, parsers: Parsers) -> str:
    """A script that completes commands, options, their values and files.

    Args:
        shell: one of `SHELLS`.
        parsers: of every command.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](parsers)


def _commands(parsers: Parsers) -> list[str]:
    return [name for name in parsers if name]


def _bash(parsers: Parsers) -> str:
    cases = "\n".join(
        f"    {name or '*'}) words={_shell(' '.join(n for flag in flags_of(parser) for n in flag.names))} ;;"
        for name, parser in sorted(parsers.items(), key=lambda one: not one[0])
    )
    values = {
        name: flag.choices for parser in parsers.values() for flag in flags_of(parser) if flag.choices
        for name in flag.names
    }  # fmt: skip
    values |= {name: found for name, parser in parsers.items() if (found := _words_of(parser))}
    choices = "\n".join(
        f'    {name}) COMPREPLY=($(compgen -W {_shell(" ".join(found))} -- "$word")); return ;;'
        for name, found in values.items()
    )
    return f"""# bash completion of rltop: source <(rltop completions bash)
_rltop() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words
  COMPREPLY=()
  case $before in
{choices}
  esac
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
    if [[ $COMP_CWORD -eq 1 ]]; then
      COMPREPLY+=($(IFS=' '; compgen -W {_shell(" ".join(_commands(parsers)))} -- "$word"))
    fi
  fi
}}
complete -F _rltop rltop
"""


def _zsh(parsers: Parsers) -> str:
    def specs(parser: argparse.ArgumentParser) -> Iterator[str]:
        for flag in flags_of(parser):
            help_text = flag.help.translate(_PLAIN)
            value = "" if not flag.takes_value else f":value:({' '.join(flag.choices)})" if flag.choices else ":value:"
            for name in flag.names:
                yield f"      {_shell(f'{name}[{help_text}]{value}')} \\"

    blocks = "\n".join(
        f"    {name or '*'})\n      _arguments \\\n" + "\n".join(specs(parser)) + f"\n      {_rest(parser)} ;;"
        for name, parser in sorted(parsers.items(), key=lambda one: not one[0])
    )
    return f"""#compdef rltop
# zsh completion of rltop: rltop completions zsh > "${{fpath[1]}}/_rltop"
_rltop() {{
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    compadd -- {" ".join(_commands(parsers))}
    _files
    return
  fi
  case $words[2] in
{blocks}
  esac
}}
compdef _rltop rltop
"""


def _rest(parser: argparse.ArgumentParser) -> str:
    words = _words_of(parser)
    return f"'*:word:({' '.join(words)})'" if words else "'*:file:_files'"


def _fish(parsers: Parsers) -> str:
    lines = ["# fish completion of rltop: rltop completions fish > ~/.config/fish/completions/rltop.fish"]
    names = _commands(parsers)
    lines.append(f"complete -c rltop -n __fish_use_subcommand -a {_shell(' '.join(names))}")
    for name, parser in parsers.items():
        where = f"__fish_seen_subcommand_from {name}" if name else "__fish_use_subcommand"
        if words := _words_of(parser):
            lines.append(f"complete -c rltop -f -n {_shell(where)} -a {_shell(' '.join(words))}")
        for flag in flags_of(parser):
            spelled = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in flag.names)
            value = f" -x -a {_shell(' '.join(flag.choices))}" if flag.choices else " -r" if flag.takes_value else ""
            lines.append(f"complete -c rltop -n {_shell(where)} {spelled}{value} -d {_shell(flag.help)}")
    return "\n".join(lines) + "\n"


def _shell(text: str) -> str:
    """In single quotes, as all three shells read it."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"


def man_page(parsers: Parsers, version: str) -> str:
    """The man page, in roff.

    Args:
        parsers: of every command.
        version: of the program.
    """
    lines = [
        f'.TH RLTOP 1 "" "rltop {version}" "User Commands"',
        ".SH NAME",
        r"rltop \- top for reinforcement-learning runs of language models",
        ".SH SYNOPSIS",
        ".B rltop",
        "[\\fIOPTION\\fR ...] [\\fIPATH\\fR ...]",
    ]
    for name in _commands(parsers):
        lines += [".br", f".B rltop {name}", "[\\fIOPTION\\fR ...] [\\fIFILE\\fR ...]"]
    for name, parser in parsers.items():
        lines += [f'.SH "{f"rltop {name}".strip().upper()}"', _roff(parser.description or "")]
        for flag in flags_of(parser):
            spelled = ", ".join(f"\\fB{_roff(one)}\\fR" for one in flag.names)
            value = f" \\fI{'|'.join(flag.choices) or 'VALUE'}\\fR" if flag.takes_value else ""
            lines += [".TP", spelled + value, _roff(flag.help)]
    epilog = parsers[""].epilog or ""
    return "\n".join([*lines, ".SH NOTES", ".nf", *map(_roff, epilog.splitlines()), ".fi"]) + "\n"


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text

"""Writes the completion scripts of bash, zsh and fish from the table of commands and options."""

from collections.abc import Iterator

from cli.terminal.completion_table import CompletedCommand, CompletedOption, CompletionTable

_BASH = """\
_drawbridge_files() {
    # A name with spaces is one word.
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$word"))
    compopt -o filenames 2>/dev/null
}
_drawbridge() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" index
    local words=""
    COMPREPLY=()
    # bash splits --option=value into three words.
    if [[ "$word" == "=" ]]; then
        word=""
    elif [[ "$before" == "=" ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "$command/${COMP_WORDS[index]}" in
@COMMANDS@
        esac
    done
    if [[ "$word" != -* ]]; then
        case "$command/$before" in
@VALUES@
        esac
    fi
    case "$command/${word:0:1}" in
@OPTIONS@
@WORDS@
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
"""
_ZSH = """\
#compdef drawbridge
whence compdef >/dev/null || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""
# From a folder of fpath, zsh runs the file at the first completion, and expects candidates.
_ZSH_FIRST = """\
if (( ${+compstate} )); then
    _bash_complete -F _drawbridge
fi
"""
_REGISTER = "complete -F _drawbridge drawbridge\n"


def bash_script(table: CompletionTable) -> str:
    """Return the script for bash."""
    return f"# bash completion of drawbridge\n{_bash_function(table)}{_REGISTER}"


def zsh_script(table: CompletionTable) -> str:
    """Return the script for zsh, which runs the function for bash."""
    return f"{_ZSH}{_bash_function(table)}{_REGISTER}{_ZSH_FIRST}"


def _bash_function(table: CompletionTable) -> str:
    parts = {
        "COMMANDS": [f'{_pattern(name)}) command="{name}" ;;' for name in table if name],
        "VALUES": [line for name, each in table.items() for line in _bash_values(name, each)],
        "OPTIONS": [f'"{name}/-") words="{_options(each)}" ;;' for name, each in table.items()],
        "WORDS": [f'"{name}/"*) words="{_words(each)}" ;;' for name, each in table.items()],
    }
    text = _BASH
    for key, lines in parts.items():
        indent = " " * (12 if key in ("COMMANDS", "VALUES") else 8)
        text = text.replace(f"@{key}@", "\n".join(f"{indent}{line}" for line in lines))
    return text


def _pattern(name: str) -> str:
    """Return what the loop compares: the command so far, and its next word."""
    above, _, last = name.rpartition(" ")
    return f'"{above}/{last}"'


def _bash_values(name: str, command: CompletedCommand) -> Iterator[str]:
    """Yield the cases of the options that take a value."""
    for each in command.options:
        if not each.takes_value:
            continue
        pattern = "|".join(f'"{name}/{option}"' for option in each.names)
        if each.files:
            yield f"{pattern}) _drawbridge_files; return ;;"
        else:
            values = " ".join(each.values)
            yield f'{pattern}) COMPREPLY=($(compgen -W "{values}" -- "$word")); return ;;'


def _options(command: CompletedCommand) -> str:
    return " ".join(name for each in command.options for name in each.names)


def _words(command: CompletedCommand) -> str:
    return " ".join([*command.subcommands, *command.values])


def fish_script(table: CompletionTable) -> str:
    """Return the script for fish."""
    return "\n".join(["# fish completion of drawbridge", *_fish_lines(table)]) + "\n"


def _fish_lines(table: CompletionTable) -> Iterator[str]:
    yield "complete -c drawbridge -f"
    for name, command in table.items():
        condition = _fish_condition(name, command)
        for word in (*command.subcommands, *command.values):
            inner = table.get(f"{name} {word}".strip())
            told = f" -d {_quote(inner.summary)}" if inner else ""
            yield f"complete -c drawbridge -n {condition} -a {word}{told}"
        for option in command.options:
            yield f"complete -c drawbridge -n {condition} {_fish_option(option)}"


def _fish_condition(name: str, command: CompletedCommand) -> str:
    if not name:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
    if command.subcommands:
        inner = " ".join(command.subcommands)
        seen += f"; and not __fish_seen_subcommand_from {inner}"
    return _quote(seen)


def _fish_option(option: CompletedOption) -> str:
    names = [
        f"-l {name.removeprefix('--')}" if name.startswith("--") else f"-s {name[1:]}"
        for name in option.names
    ]
    if option.files:
        names.append("-r -F")
    elif option.takes_value:
        names.append(f"-x -a {_quote(' '.join(option.values))}" if option.values else "-x")
    return f"{' '.join(names)} -d {_quote(option.summary)}"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

# SPDX-License-Identifier: MIT
"""Makes the completions of a shell of the options that the commands and the library know.

usage: completions/generate.py bash|zsh|fish >FILE
"""
import importlib
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "cmd"))

import common  # noqa: E402  (needs the path above)
import main as command_line  # noqa: E402
import options  # noqa: E402

FILES = {"FILE", "OUT", "A", "B"}  # names of values that are files


class Found(Exception):
    """Brings a command's parser out of the command, before it does anything."""


def parser_of(module):
    def stop(parser, *_):
        raise Found(parser)

    common.Parser.parse_args = stop
    try:
        importlib.import_module(module).main([])
    except Found as found:
        return found.args[0]
    raise SystemExit(f"completions: {module}.main() parses no options")


class Flag:
    """An option of a command. `value`: "", or what completes its value: file, setting or other."""

    def __init__(self, parser, action):
        self.names = action.option_strings
        self.optional = action.nargs == "?"  # its value stands behind =
        metavar = (action.metavar or "").lstrip("=")
        self.value = "" if action.nargs == 0 else "file" if metavar in FILES else \
            "setting" if metavar == "SECTION.KEY=VALUE" else "other"
        help_text = parser._get_formatter()._expand_help(action) if action.help else ""
        self.help = re.split(r"[;.:](?: |$)| \(", help_text)[0]

    def follows(self):
        """Whether the value is a word of its own."""
        return self.value and not self.optional


class Command:
    """`operand`: what follows the options: file, process, program, or command with its arguments."""

    def __init__(self, name, module):
        parser = parser_of(module)
        self.name = name
        self.help = (parser.description or "").rstrip(".")
        self.flags = [Flag(parser, action) for action in parser._actions if action.option_strings]
        places = {action.metavar or action.dest for action in parser._actions if not action.option_strings}
        self.operand = "command" if "command" in (parser.usage or "") else "file" if places & FILES else \
            "process" if "PID" in places else "program" if "program" in places else ""


def commands():
    return [Command("", "launch"), *(Command(name, module) for name, module in command_line.COMMANDS.items())]


def settings():
    """[(section.key, words of its value, help)]"""
    return [(name, option.words or (["true", "false"] if option.kind == "BOOL" else []),
             option.help.split(". ")[0])
            for name, option in options.table().items()]


def words(parts):
    return " ".join(parts)


# -- bash -------------------------------------------------------------------------

BASH = r"""# Completion of autograph for bash. Made by completions/generate.py.

# What may follow the word before: an option's value, or nothing of ours.
_autograph_value()
{
    case $1 in
@values@
    *) return 1 ;;
    esac
}

_autograph_files()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_autograph_words()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# A program and its arguments, from word $1 on.
_autograph_program()
{
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [ "$COMP_CWORD" -eq "$1" ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$2"; compgen -f -- "$2")
    else
        _autograph_files "$2"
    fi
}

_autograph()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command='' first=1 i=1 key='' takes='' operand=command flags=''
    local commands='@commands@'
    COMPREPLY=()
    case " $commands " in
    *" ${COMP_WORDS[1]} "*) [ "$COMP_CWORD" -gt 1 ] && command=${COMP_WORDS[1]} first=2 i=2 ;;
    esac

    # The words before, up to the first that is no option. Readline makes a word of each =.
    while [ "$i" -lt "$COMP_CWORD" ]; do
        case ${COMP_WORDS[i]} in
        --) [ "${COMP_WORDS[i + 1]}" != = ] && break ;;
        =) ;;
        -*) takes=$(_autograph_value "$command ${COMP_WORDS[i]}") || takes=''
            if [ -n "$takes" ] && [ "$((i + 1))" -lt "$COMP_CWORD" ] && [ "${COMP_WORDS[i + 1]}" != = ]; then
                i=$((i + 1))
            fi ;;
        *) [ "${COMP_WORDS[i - 1]}" = = ] || [ "${COMP_WORDS[i + 1]}" = = ] || break ;;
        esac
        i=$((i + 1))
    done

    case $command in
@cases@
    esac
    if [ "$i" -lt "$COMP_CWORD" ] && [ "$operand" = command ]; then
        [ "${COMP_WORDS[i]}" = -- ] && i=$((i + 1))
        _autograph_program "$i" "$cur"
        return
    fi

    # A value behind =, or in a word of its own.
    if [ "$cur" = = ] && [ "$COMP_CWORD" -gt "$first" ]; then
        key=${COMP_WORDS[COMP_CWORD - 1]} cur=''
    elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = = ]; then
        key=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $key in
    '') takes=$(_autograph_value "$command ${COMP_WORDS[COMP_CWORD - 1]}") || takes='' ;;
    -*) takes=$(_autograph_value "$command $key") || takes=$(_autograph_value "$command $key=") || return ;;
    *)  _autograph_words "$(_autograph_value "$key=")" "$cur"
        return ;;
    esac
    case $takes in
    file) _autograph_files "$cur" ;;
    setting)
        compopt -o nospace 2>/dev/null
        _autograph_words '@settings@' "$cur" ;;
    other) ;;
    *)
        case $cur in
        -*) _autograph_words "$flags" "$cur" ;;
        *)
            case $operand in
            file) _autograph_files "$cur" ;;
            process) _autograph_words "$(cd /proc && printf '%s ' [0-9]*)" "$cur" ;;
            *) _autograph_program "$COMP_CWORD" "$cur" ;;
            esac
            if [ -z "$command" ] && [ "$COMP_CWORD" -eq 1 ]; then
                mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$commands" -- "$cur")
            fi ;;
        esac ;;
    esac
}
complete -F _autograph autograph
"""


def bash(all_commands, all_settings):
    values = [f"    '{c.name} {name}{'=' if flag.optional else ''}') echo {flag.value} ;;"
              for c in all_commands for flag in c.flags if flag.value for name in flag.names]
    values += [f"    {name}=) echo '{words(known)}' ;;" for name, known, _ in all_settings if known]
    cases = [f"    {c.name or repr('')}) operand={c.operand} flags='"
             f"{words(name for flag in c.flags for name in flag.names)}' ;;" for c in all_commands]
    return BASH.replace("@values@", "\n".join(values)).replace("@cases@", "\n".join(cases)) \
        .replace("@commands@", words(c.name for c in all_commands[1:])) \
        .replace("@settings@", words(f"{name}=" for name, _, _ in all_settings))


# -- zsh --------------------------------------------------------------------------

ZSH = r"""#compdef autograph
# Completion of autograph for zsh. Made by completions/generate.py.

_autograph_settings() {
    local -a settings=(
@settings@
    )
    if compset -P '*='; then
        case ${${IPREFIX%=}##*=} in
@values@
        *) _message value ;;
        esac
    else
        _describe -t settings option settings -S =
    fi
}

_autograph() {
    local -a commands=(
@commands@
    )
    if (( CURRENT > 2 )); then
        case $words[2] in
@cases@
        esac
    fi
    _arguments -s -S -A '-*' \
@flags@
        '(-)1: :{_describe -t commands command commands; _command_names -e}' \
        '*::argument:_normal'
}

_autograph "$@"
"""

ZSH_VALUES = {"file": ":file:_files", "setting": ":option:_autograph_settings", "other": ":value: "}
ZSH_OPERANDS = {"file": "'*:file:_files'", "process": "'1:process:_pids'", "program": "'1:program:_command_names -e'",
                "command": "'(-)1:program:_command_names -e' '*::argument:_normal'", "": ""}


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_flags(command):
    for flag in command.flags:
        repeated = "*" if flag.value == "setting" else ""
        for name in flag.names:
            value = ZSH_VALUES[flag.value] if flag.value else ""
            equals = "=-:" if flag.optional else "=" if flag.value and name.startswith("--") else ""
            yield f"'{repeated}{name}{equals.rstrip(':')}[{zsh_text(flag.help)}]{equals[2:]}{value}'"


def zsh(all_commands, all_settings):
    cases = [f"        {c.name}) shift words; (( CURRENT-- )); _arguments -s -S {words(zsh_flags(c))} "
             f"{ZSH_OPERANDS[c.operand]}; return ;;" for c in all_commands[1:]]
    listed = "\n".join(f"        '{name}:{zsh_text(text)}'" for name, _, text in all_settings)
    return ZSH.replace("@settings@", listed) \
        .replace("@values@", "\n".join(f"        {name}) compadd {words(known)} ;;"
                                       for name, known, _ in all_settings if known)) \
        .replace("@commands@", "\n".join(f"        '{c.name}:{zsh_text(c.help)}'" for c in all_commands[1:])) \
        .replace("@flags@", "\n".join(f"        {spec} \\" for spec in zsh_flags(all_commands[0]))) \
        .replace("@cases@", "\n".join(cases))


# -- fish -------------------------------------------------------------------------

FISH = r"""# Completion of autograph for fish. Made by completions/generate.py.

# True where the words so far are options of autograph, and no command and no program.
function __autograph_first
    set -l words (commandline -opc)
    set -e words[1]
    set -l skip 0
    for word in $words
        if test $skip = 1
            set skip 0
        else if contains -- $word @takes@
            set skip 1
        else if not string match -q -- '-*' $word
            return 1
        end
    end
    return 0
end

# True for the command $argv.
function __autograph_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv
end

"""


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(all_commands, all_settings):
    takes = words(name for flag in all_commands[0].flags if flag.follows() for name in flag.names)
    pairs = words(fish_text(f"{name}={value}\t{text}") for name, known, text in all_settings
                  for value in known or [""])
    lines = [FISH.replace("@takes@", takes), f"set -g __autograph_settings {pairs}", ""]
    for c in all_commands[1:]:
        lines.append(f"complete -c autograph -n __autograph_first -a {c.name} -d {fish_text(c.help)}")
    lines.append("complete -c autograph -n __autograph_first -xa '(__fish_complete_subcommand)'")
    for c in all_commands:
        condition = fish_text(f"__autograph_command {c.name}") if c.name else "__autograph_first"
        where = f"complete -c autograph -n {condition}"
        if c.operand in ("program", "command") and c.name:
            lines.append(f"{where} -xa '(__fish_complete_subcommand)'")
        elif c.operand == "process":
            lines.append(f"{where} -xa '(__fish_complete_pids)'")
        for flag in c.flags:
            names = words(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            value = "" if not flag.value or flag.optional else \
                " -xa '$__autograph_settings'" if flag.value == "setting" else " -r" if flag.value == "file" else " -x"
            lines.append(f"{where} {names}{value} -d {fish_text(flag.help)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print({"bash": bash, "zsh": zsh, "fish": fish}[sys.argv[1]](commands(), settings()), end="")
